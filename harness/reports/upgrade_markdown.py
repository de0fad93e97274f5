"""The summary of an upgrade in Markdown, for a pull request."""

from collections.abc import Iterator

from harness.documents.upgrade_report import KernelUpgrade, UpgradeReport, UpgradeVerdict
from harness.reports.markdown import escaped
from harness.reports.upgrade_text import LABELS, difference_text, distance_text, failure_text, growth_text
from harness.wording import counted

MOST = 40
"""The most kernels in the table; the page has all."""
QUIET = frozenset({UpgradeVerdict.SAME_CODE, UpgradeVerdict.SAME_TTIR, UpgradeVerdict.SAME_BITS})
"""Verdicts of kernels that are only counted."""


def upgrade_markdown(report: UpgradeReport) -> str:
    """Return the counts of all verdicts, and a table of the kernels that change."""
    return "\n".join(_lines(report)) + "\n"


def reason(kernel: KernelUpgrade) -> str:
    """Return what stands behind the verdict of a kernel, on one line; empty if it is plain."""
    if kernel.failures:
        return failure_text(kernel.failures[0])
    if kernel.differences:
        return difference_text(kernel.differences[0])
    if kernel.verdict is UpgradeVerdict.NOT_COMPARED:
        return "; ".join(kernel.not_compared)
    if kernel.growths:
        return growth_text(kernel.growths[0])
    if kernel.farthest is not None:
        return distance_text(kernel.farthest)
    return ""


def _lines(report: UpgradeReport) -> Iterator[str]:
    yield f"### triton {escaped(report.old)} → {escaped(report.new)}"
    yield ""
    counts = [f"{LABELS[verdict]}: {number}" for verdict in UpgradeVerdict if (number := report.count(verdict))]
    yield f"{counted(len(report.kernels), 'kernel')} on {', '.join(report.devices)}. {'; '.join(counts)}."
    changed = [kernel for kernel in report.kernels if kernel.verdict not in QUIET]
    if changed:
        yield ""
        yield "| kernel | suite | verdict | |"
        yield "|---|---|---|---|"
        for kernel in changed[:MOST]:
            cells = (kernel.kernel, kernel.suite, LABELS[kernel.verdict], reason(kernel))
            yield f"| {' | '.join(map(escaped, cells))} |"
        if len(changed) > MOST:
            yield ""
            yield f"And {len(changed) - MOST} more."
    if report.unloadable:
        yield ""
        yield "Cannot be loaded:"
        yield ""
        yield from (f"- {escaped(f'{each.suite}: {each.new or each.old}')}" for each in report.unloadable)
    if report.worse_endings:
        yield ""
        yield f"Completes with the old release alone: {counted(len(report.worse_endings), 'case')}."
        yield ""
        yield from (f"- {escaped(ending.case)}: {escaped(ending.new)}" for ending in report.worse_endings[:MOST])
