"""The table of `--survey coverage`: executed launches by library, kernel and device, and why others abstain."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from harness.model.device import DeviceProfile
from harness.search.kernel_coverage import COMPLETED, Coverage, KernelCount
from harness.wording import counted

OWN = "kernels of the suites themselves"
NONE = "-"


def lines(coverage: Coverage, devices: Sequence[DeviceProfile]) -> Iterator[str]:
    """Yield the table, then what it does not cover, then the conclusion."""
    slugs = [device.slug for device in devices]
    names = max((len(count.kernel) for count in coverage.kernels), default=0) + 2
    widths = [max(len(device.slug), len(device.arch_name)) for device in devices]
    for library, counts in groupby(coverage.kernels, attrgetter("library")):
        yield _row(library or OWN, names, slugs, widths)
        yield _row("", names, [device.arch_name for device in devices], widths)
        for kernel, of_kernel in groupby(counts, attrgetter("kernel")):
            by_device = {count.device: count for count in of_kernel}
            cells = [_cell(by_device.get(slug)) for slug in slugs]
            yield f"{_row('  ' + kernel, names, cells, widths)}  {_verdict(by_device.values())}"
        yield ""
    yield from _gaps(coverage)
    yield conclusion(coverage)


def conclusion(coverage: Coverage) -> str:
    """Return the last line."""
    kernels = len({(count.library, count.kernel) for count in coverage.kernels})
    total = coverage.executed + coverage.abstained
    share = f"{100 * coverage.abstained / total:.1f} %" if total else "none launched"
    return (
        f"{counted(total, 'launch')} of {counted(kernels, 'kernel')} in {counted(coverage.cases, 'case')}: "
        f"{coverage.executed} executed, {coverage.abstained} abstained ({share})"
    )


def _row(name: str, names: int, cells: Sequence[str], widths: Sequence[int]) -> str:
    return f"{name:<{names}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _cell(count: KernelCount | None) -> str:
    """Return the executed launches, `3/5` if some abstained."""
    if count is None:
        return NONE
    abstained = sum(number for _, number in count.abstained)
    return f"{count.executed}/{count.executed + abstained}" if abstained else str(count.executed)


def _verdict(counts: Iterable[KernelCount]) -> str:
    reasons = Counter[str]()
    for count in counts:
        reasons.update(dict(count.abstained))
    return f"abstains: {', '.join(reason for reason, _ in reasons.most_common())}" if reasons else "runs"


def _gaps(coverage: Coverage) -> Iterator[str]:
    """Yield the cases that did not complete, and the ops that launched nothing."""
    ended = Counter[tuple[str, str]]()
    for op_coverage in coverage.ops:
        ended.update({(op_coverage.op, ending): count for ending, count in op_coverage.endings if ending != COMPLETED})
    if ended:
        yield "cases that did not complete (only launches before the end are counted):"
        yield from (f"  {count:>4}  {op}: {ending}" for (op, ending), count in sorted(ended.items()))
        yield ""
    if coverage.silent:
        yield "ops that launched nothing (not covered at all):"
        yield from (f"  {op.op} on {op.device}" for op in coverage.silent)
        yield ""
