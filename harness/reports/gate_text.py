"""What a gate prints: what the change touches, and the verdict with the findings."""

from collections.abc import Iterator, Sequence

from harness.changes.op_digests import TouchedOp
from harness.documents.gate_report import GateReport, GateVerdict, JudgedFinding, OpChange, Standing
from harness.reports.summary import name_of, named
from harness.wording import counted

MOST_OPS = 12
"""The most ops that are listed; JSON has all."""
MOST_PLACES = 3
"""The most places of an op on its line."""


def op_change(touched: TouchedOp) -> OpChange:
    """Return a touched op as documents have it."""
    return OpChange(
        op=touched.op.id,
        through=tuple(map(str, touched.places)),
        kernels=touched.kernels,
        is_new=touched.is_new,
    )


def base_name(gate: GateReport) -> str:
    """Return the base with its commit: `main (3f2a91c07b44)`."""
    return f"{gate.base} ({gate.commit[:12]})"


def change_lines(changes: Sequence[OpChange], unreached: Sequence[str], op_count: int) -> Iterator[str]:
    """Yield which ops the change touches, and through what."""
    if changes:
        verb = "reaches" if len(changes) == 1 else "reach"
        yield f"{len(changes)} of {counted(op_count, 'op')} {verb} what has changed:"
    width = max((len(name_of(change.op)) for change in changes), default=0)
    for change in changes[:MOST_OPS]:
        yield f"  {name_of(change.op):<{width}}  {through_text(change)}"
    if len(changes) > MOST_OPS:
        yield f"  and {len(changes) - MOST_OPS} more"
    if kernels := sorted({kernel for change in changes for kernel in change.kernels}):
        yield f"kernels: {named(kernels)}"
    if unreached:
        yield f"changed, and no op of these suites reaches it: {named(unreached)}"


def through_text(change: OpChange) -> str:
    """Return what touches an op, on one line."""
    if change.is_new:
        return "new"
    ranked = sorted(change.through, key=lambda place: place.rpartition(": ")[2] not in change.kernels)
    more = f", and {len(ranked) - MOST_PLACES} more" if len(ranked) > MOST_PLACES else ""
    return f"{', '.join(ranked[:MOST_PLACES])}{more}"


def finding_lines(gate: GateReport) -> Iterator[str]:
    """Yield a line for each finding that is no reason to fail."""
    for judged in gate.findings:
        if not judged.fails:
            note = f" ({judged.note})" if judged.note else ""
            yield f"{standing_text(judged, gate)}: {judged.finding} {judged.signature}{note}"


def standing_text(judged: JudgedFinding, gate: GateReport) -> str:
    """Return the standing in words: `also at main`."""
    match judged.standing:
        case Standing.AT_BASE:
            return f"also at {gate.base}"
        case Standing.NEW:
            return "new" if judged.fails else "new warning"
        case Standing.KNOWN | Standing.FLAKY | Standing.NOT_CONFIRMED:
            return str(judged.standing)


def verdict_line(gate: GateReport) -> str:
    """Return the verdict in one line."""
    base = base_name(gate)
    match gate.verdict:
        case GateVerdict.FAILED:
            failing = sum(judged.fails for judged in gate.findings)
            return f"failed: {counted(failing, 'finding')} that {base} does not show{_others(gate)}"
        case GateVerdict.NOT_CHECKED:
            return f"not checked: {'; '.join(gate.not_checked)}{_others(gate)}"
        case GateVerdict.PASSED if not gate.changes:
            return f"passed: nothing that an op reaches has changed since {base}"
        case GateVerdict.PASSED:
            return f"passed: no finding that {base} does not show{_others(gate)}"


def _others(gate: GateReport) -> str:
    """Return the counts of findings that do not fail: `; 2 also at main, 1 flaky`."""
    texts = [standing_text(judged, gate) for judged in gate.findings if not judged.fails]
    counts = [f"{texts.count(text)} {text}" for text in dict.fromkeys(texts)]
    return f"; {', '.join(counts)}" if counts else ""
