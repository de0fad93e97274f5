"""The summary of a campaign: what ran, what passed and failed, why cases abstained, and what was not checked."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.catalogue import devices, gap
from harness.documents.campaign import CampaignReport, VerdictCount
from harness.documents.op_checks import SECOND_RUN_WORDS, OpChecks, UncheckedOp, by_op, impossible
from harness.model.paired_run import SecondRun
from harness.model.verdict import Outcome, Severity
from harness.oracles import registry
from harness.oracles.traits import PromiseScope
from harness.wording import counted

REASONS = 5
CUT_OFF = 3
NOT_WATCHED = "no launch was seen: this says nothing about the kernels"
UNFINISHED = "the compiler pipeline runs in the background and had not finished the others"
STEP_WIDTH = len("harness report 01234567 --issue")
FEW_CASES = 10
LONG_S = 45
"""A search of so many seconds, as one of `--minutes 1` has, that checked fewer cases of an op says so.

It says so next to `no findings`.  If it checked fewer cases in all, nothing is known.
"""
NAMED = 5
"""How many ops a line names; the JSON and HTML reports have all."""


def summary(report: CampaignReport) -> Iterator[str]:
    """Yield the lines; the last is the conclusion."""
    if report.abstain_reasons:
        several = sum(report.abstain_reasons.values()) > report.abstained
        note = " (some for several reasons)" if several else ""
        yield f"{report.abstained:,} of {counted(report.cases, 'case')} could not be checked{note}:"
        yield from _reasons(report.abstain_reasons)
    yield from avoided_lines(report)
    yield from checks(report.verdicts, report.op_checks)
    yield from build_lines(report)
    yield from eager_lines(report.op_checks)
    yield from picked_lines(report.op_checks)
    yield from (f"not tried: {kind}: {named(map(name_of, ops))}" for kind, ops in report.untried.items())
    yield from (f"no {kind}: {named(map(name_of, ops))}" for kind, ops in impossible(report.op_checks).items())
    yield from unchecked_lines(report.unchecked)
    yield from (f"accepted {count:>5}  {what}" for what, count in report.accepted_reports.items())
    if report.gpu_wait_share is not None:
        yield f"the GPUs waited for the compiler {report.gpu_wait_share:.0%} of the time"
    if report.cut_off:
        yield f"{counted(len(report.cut_off), 'case')} still ran when the time for the search was up, without a result:"
        yield from (f"         {case}" for case in report.cut_off[:CUT_OFF])
    rate = report.cases / report.seconds if report.seconds else 0.0
    on = ", ".join(report.devices)
    stopped = "interrupted after" if report.interrupted else "ran"
    yield (
        f"{stopped} {counted(report.cases, 'case')} on {on} in {report.seconds:.0f} s "
        f"({rate:.1f}/s, seed {report.seed}): "
        f"{report.passed} passed, {report.failed} failed, {report.abstained} abstained"
    )
    if report.regressions:
        yield f"replayed {counted(report.regressions, 'kept regression')} first"
    yield from (f"first case dropped: {message}" for message in report.dropped_cases)
    yield from (f"regression not checked: {message}" for message in report.unchecked_regressions)
    yield from (f"known issue: {notice}" for notice in report.notices)
    yield from (f"suite error: {message}" for message in report.suite_errors)
    yield from (f"missing: {part} did not report" for part in report.missing)
    yield conclusion(report)


def watch_summary(report: CampaignReport, launches: int, command: str, status: int) -> Iterator[str]:
    """Yield the lines of `harness run`; the last is the conclusion."""
    if report.abstain_reasons:
        yield f"{counted(sum(report.abstain_reasons.values()), 'launch')} could not be checked:"
        yield from _reasons(report.abstain_reasons)
    if report.uncompiled:
        yield f"{counted(sum(report.uncompiled.values()), 'program')} of torch.compile ran uncompiled:"
        yield from _reasons(report.uncompiled)
    yield from checks(report.verdicts, ())
    yield from build_lines(report)
    stopped = "interrupted after" if report.interrupted else "watched"
    yield (
        f"{stopped} {counted(launches, 'launch')} of {counted(len(report.kernels), 'kernel')} in "
        f"{counted(report.cases, 'test')} on {', '.join(report.devices)} in {report.seconds:.0f} s: "
        f"{report.passed} passed, {report.failed} failed, {report.abstained} abstained"
    )
    if status:
        yield f"{command} ended with status {status}"
    yield from (f"known issue: {notice}" for notice in report.notices)
    yield conclusion(report) if launches else NOT_WATCHED


def _reasons(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield the most frequent reasons, and how many more there are."""
    reasons = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    yield from (f"  {count:>5}  {reason}" for reason, count in reasons[:REASONS])
    if len(reasons) > REASONS:
        rest = sum(count for _, count in reasons[REASONS:])
        yield f"  {rest:>5}  for {counted(len(reasons) - REASONS, 'more reason')}"


def avoided_lines(report: CampaignReport) -> Iterator[str]:
    """Yield what later draws avoided, and which ops were set aside."""
    for draws in report.avoided:
        op = draws.op.rpartition(":")[2]
        yield (
            f"avoided {counted(draws.dropped, 'draw')} of {op} with {draws.rule}: "
            f"{draws.failed} of {counted(draws.cases, 'such case')} ended early, without results"
        )
    for row in report.set_aside:
        op = row.op.rpartition(":")[2]
        yield (
            f"set aside {op} on {row.device}: {row.completed or 'none'} of {counted(row.cases, 'case')} completed; "
            f"{row.batches} of its batches went to others"
        )


def conclusion(report: CampaignReport) -> str:
    """Return the last line."""
    ops, missing = len(by_op(report.op_checks)), len(report.unchecked_ops)
    of_ops = f"; {missing} of {counted(ops, 'op')} could not be checked" if missing else ""
    if unchecked := len(report.unchecked_regressions):
        of_ops += f"; {unchecked} of {counted(report.regressions, 'regression')} could not be checked"
    if report.findings:
        errors = sum(finding.severity is Severity.ERROR for finding in report.findings)
        known = f"; {len(report.known_findings)} of them known" if report.known_findings else ""
        return f"{count_text(errors, len(report.findings) - errors)}{known}{of_ops}"
    if not report.checked:
        return "nothing could be checked: this says nothing about the kernels"
    if report.seconds >= LONG_S and (few := [row for row in by_op(report.op_checks) if 0 < row.checked < FEW_CASES]):
        counts = named(f"{row.name} {row.checked}" for row in few)
        return f"no findings, but too few cases to say much: {counts}{of_ops}"
    return f"no findings{of_ops}"


def shows_too_little(report: CampaignReport) -> bool:
    """Return True if a long search has checked so few cases that `no findings` says nothing."""
    return report.checked < (FEW_CASES if report.seconds >= LONG_S else 1)


def next_steps(report: CampaignReport) -> Iterator[str]:
    """Yield the commands that follow a search with a finding that is not known; none without one."""
    known = {issue.finding for issue in report.known_findings}
    new = [finding for finding in report.findings if finding.id not in known]
    if not new:
        return
    first = next((finding for finding in new if finding.confirmed), new[0])
    steps = (
        (f"harness keep {first.id}", "replay it first from now on, as a regression"),
        ("harness report", "write all findings as a page"),
        (f"harness report {first.id} --issue", "write it for an issue tracker"),
    )
    yield "next:"
    for command, effect in steps if first.confirmed else steps[1:]:
        yield f"  {command:<{STEP_WIDTH}}  {effect}"


def checks(verdicts: Iterable[VerdictCount], rows: Iterable[OpChecks]) -> Iterator[str]:
    """Yield how many cases each oracle checked, and how many checks of the rarer kinds ran."""
    checked = Counter[str]()
    for row in verdicts:
        checked[row.oracle] += row.cases if row.outcome is not Outcome.ABSTAIN else 0
    by_case = registry.names_with(lambda traits: traits.scope is not PromiseScope.BUILD)
    oracles = [name for name in by_case if checked[name]]
    if oracles:
        yield f"checked: {', '.join(f'{name} {checked[name]}' for name in oracles)}"
    ops = by_op(rows)
    if any(row.checked for row in ops):
        yield f"among them: {', '.join(_rare_checks(ops))}"


def build_lines(report: CampaignReport) -> Iterator[str]:
    """Yield the line about the builds whose resources were checked, if there are builds."""
    if report.builds:
        is_complete = report.compiled_builds == report.builds
        rest = "" if is_complete else f": {'; '.join(_gaps(report)) or UNFINISHED}"
        yield f"resources checked for {report.compiled_builds} of {report.builds} compiled kernels{rest}"


def _gaps(report: CampaignReport) -> tuple[str, ...]:
    """Return why nothing is known of machine code for devices of the search, each reason once."""
    slugs = {device.partition(" ")[0] for device in report.devices}
    reasons = (gap(device, report.versions.get("triton", "0")) for device in devices() if device.slug in slugs)
    return tuple(dict.fromkeys(filter(None, reasons)))


def eager_lines(rows: Iterable[OpChecks]) -> Iterator[str]:
    """Yield what torch's own operators computed of compiled programs: no oracle judged a kernel there."""
    parts = dict[str, list[str]]()
    for row in by_op(rows):
        for part, cases in row.eager.items():
            parts.setdefault(part, []).append(f"{row.name} ({counted(cases, 'case')})")
    ranked = sorted(parts.items(), key=lambda item: (-len(item[1]), item[0]))
    yield from (f"not compiled: {part}: {named(ops)}" for part, ops in ranked[:REASONS])
    if len(ranked) > REASONS:
        yield f"not compiled: {named(part for part, _ in ranked[REASONS:])}"


def picked_lines(rows: Iterable[OpChecks]) -> Iterator[str]:
    """Yield how many of the configs that host code may pick were checked, by op and device."""
    parts = [
        f"{row.name} {sum(map(bool, row.picked.values()))} of {len(row.picked)} on {row.device}"
        for row in rows
        if row.picked
    ]
    if parts:
        yield f"configs of host code: {named(parts)}"


def _rare_checks(ops: Sequence[OpChecks]) -> Iterator[str]:
    yield f"long {sum(row.long for row in ops)}"
    yield f"beyond 2^31 elements {sum(row.oversized for row in ops)}"
    second = Counter[SecondRun]()
    for row in ops:
        second.update(row.second_runs)
    yield from (f"{SECOND_RUN_WORDS[kind]} {count}" for kind, count in sorted(second.items()))


def unchecked_lines(unchecked: Iterable[UncheckedOp]) -> Iterator[str]:
    """Yield a line for the ops that were checked on no device, and one for those that some device lacks."""
    nowhere = [op for op in unchecked if not op.device]
    somewhere = [op for op in unchecked if op.device]
    if nowhere:
        yield f"not checked: {named(map(str, nowhere))}"
    if somewhere:
        yield f"not checked on every device: {named(map(str, somewhere))}"


def named(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    every = tuple(names)
    more = f", and {len(every) - NAMED} more" if len(every) > NAMED else ""
    return f"{', '.join(every[:NAMED])}{more}"


def name_of(op: str) -> str:
    """Return the op without its file."""
    return op.rpartition(":")[2]


def count_text(errors: int, warnings: int) -> str:
    """Return the number of findings: `3 findings: 2 errors, 1 warning`."""
    counts = [counted(count, noun) for count, noun in ((errors, "error"), (warnings, "warning")) if count]
    findings = errors + warnings
    return f"{counted(findings, 'finding')}: {', '.join(counts)}" if findings else "no findings"
