"""The summary of a campaign: what ran, what passed and failed, and why cases abstained."""

from collections.abc import Iterator

from harness.documents.campaign import CampaignReport
from harness.model.verdict import Severity

REASONS = 5
CUT_OFF = 3


def summary(report: CampaignReport) -> Iterator[str]:
    """Yield the lines; the last is the conclusion."""
    if report.abstain_reasons:
        yield f"{report.abstained} of {report.cases} cases could not be checked:"
        reasons = sorted(report.abstain_reasons.items(), key=lambda item: (-item[1], item[0]))
        yield from (f"  {count:>5}  {reason}" for reason, count in reasons[:REASONS])
        if len(reasons) > REASONS:
            yield f"         and {len(reasons) - REASONS} more reasons"
    if report.compiled_builds < report.builds:
        yield (
            f"resources checked for {report.compiled_builds} of {report.builds} compiled kernels: "
            "the compiler pipeline runs in the background and had not finished the others"
        )
    yield from (f"accepted {count:>5}  {what}" for what, count in report.accepted_reports.items())
    if report.gpu_wait_share is not None:
        yield f"the GPUs waited for the compiler {report.gpu_wait_share:.0%} of the time"
    if report.cut_off:
        yield f"{len(report.cut_off)} cases still ran when the time for the search was up, so nothing is known of them:"
        yield from (f"         {case}" for case in report.cut_off[:CUT_OFF])
    rate = report.cases / report.seconds if report.seconds else 0.0
    on = ", ".join(report.devices)
    stopped = "interrupted after" if report.interrupted else "ran"
    yield (
        f"{stopped} {report.cases} cases on {on} in {report.seconds:.0f} s ({rate:.1f}/s, seed {report.seed}): "
        f"{report.passed} passed, {report.failed} failed, {report.abstained} abstained"
    )
    yield from (f"known issue: {notice}" for notice in report.notices)
    yield conclusion(report)


def conclusion(report: CampaignReport) -> str:
    """Return the last line."""
    if report.findings:
        errors = sum(finding.severity is Severity.ERROR for finding in report.findings)
        known = f"; {len(report.known_findings)} of them known" if report.known_findings else ""
        return f"{count_text(errors, len(report.findings) - errors)}{known}"
    if not report.checked:
        return "nothing could be checked: this says nothing about the kernels"
    return "no findings"


def count_text(errors: int, warnings: int) -> str:
    """Return the number of findings: `3 findings: 2 errors, 1 warning`."""
    counts = [
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((errors, "error"), (warnings, "warning"))
        if count
    ]
    found = errors + warnings
    return f"{found} finding{'' if found == 1 else 's'}: {', '.join(counts)}" if found else "no findings"
