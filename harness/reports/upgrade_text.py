"""The text of `harness upgrade`: a table of kernels, what stands behind each verdict, and the answer, in 80 columns."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from harness.documents.upgrade_report import (
    BuildFailure,
    Growth,
    KernelUpgrade,
    UpgradeReport,
    UpgradeVerdict,
    ValueDifference,
)
from harness.model.launch_difference import Difference
from harness.reports.matrix_text import short_config
from harness.wording import counted

NAME_WIDTH = 38
COMPLETED = "the case completes"
LINE_WIDTH = 76
MOST_LINES = 12
"""Lines of one section; the JSON file has all."""
LABELS = {
    UpgradeVerdict.SAME_CODE: "same code",
    UpgradeVerdict.SAME_TTIR: "other code, same TTIR",
    UpgradeVerdict.SAME_BITS: "same bits",
    UpgradeVerdict.ROUNDING: "rounding only",
    UpgradeVerdict.NEEDS_MORE: "needs more",
    UpgradeVerdict.NEW_IS_RIGHT: "different, new is right",
    UpgradeVerdict.NOT_COMPARED: "not compared",
    UpgradeVerdict.DIFFERENT: "different",
    UpgradeVerdict.FAILS: "compiles no more",
    UpgradeVerdict.REMOVED: "removed API",
}
"""By verdict, its words in tables; `harness.documents.upgrade_report` says what each means."""


def lines(report: UpgradeReport, fail_on: Sequence[UpgradeVerdict]) -> Iterator[str]:
    """Yield the table, a section for each kind of difference, and the answer."""
    yield f"{'kernel':<{NAME_WIDTH}} {'verdict':<23} builds launches"
    for kernel in report.kernels:
        name = _cut(kernel.kernel, NAME_WIDTH)
        yield f"{name:<{NAME_WIDTH}} {LABELS[kernel.verdict]:<23} {kernel.builds:>6} {kernel.launches:>8}"
    yield "builds: configs on GPUs, compiled by both; launches: from the same bytes"
    for title, rows in sections(report):
        yield ""
        yield f"{title}:"
        yield from (f"  {row}" for row in rows[:MOST_LINES])
        if len(rows) > MOST_LINES:
            yield f"  … and {len(rows) - MOST_LINES} more"
    yield ""
    yield from conclusion(report, fail_on)


def sections(report: UpgradeReport) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and the lines of each section that has lines."""
    every = (
        ("suites that cannot be loaded", list(_unloadable(report))),
        ("uses a name that is gone", _rows(report, _removed)),
        ("compiles or fits no more", _rows(report, _broken)),
        ("differs by more than rounding", _rows(report, _different)),
        ("needs more", _rows(report, _growing)),
        ("differs by rounding", _rows(report, _rounding)),
        ("not compared", _rows(report, _not_compared)),
        ("cases end otherwise", list(_endings(report))),
    )
    return ((title, rows) for title, rows in every if rows)


def conclusion(report: UpgradeReport, fail_on: Sequence[UpgradeVerdict]) -> Iterator[str]:
    """Yield what was compared, and the answer."""
    builds = sum(kernel.builds for kernel in report.kernels)
    same_code, same_ttir = (sum(getattr(each, name) for each in report.kernels) for name in ("same_code", "same_ttir"))
    kernels = f"{counted(len(report.kernels), 'kernel')} on {counted(len(report.devices), 'GPU')}"
    yield f"{kernels}: {counted(builds, 'build')}, {same_code} with the same PTX, {same_ttir} with the same TTIR"
    launches = sum(kernel.launches for kernel in report.kernels)
    equal = sum(kernel.equal_launches for kernel in report.kernels)
    yield f"{counted(report.cases, 'case')}, {counted(launches, 'launch')} compared, {equal} with the same bits"
    if growing := sum(kernel.more_registers for kernel in report.kernels):
        yield f"{counted(growing, 'build')} with more registers"
    yield answer(report, fail_on)


def answer(report: UpgradeReport, fail_on: Sequence[UpgradeVerdict]) -> str:
    """Return whether anything stands against the upgrade."""
    against = [
        f"{LABELS[verdict]}: {counted(number, 'kernel')}" for verdict in fail_on if (number := report.count(verdict))
    ]
    if ended := len(report.worse_endings):
        against.append(f"no longer completed: {counted(ended, 'case')}")
    if lost := len(report.worse_suites):
        against.append(f"loads no more: {counted(lost, 'suite')}")
    left_out = report.count(UpgradeVerdict.NOT_COMPARED)
    rest = f"; not compared: {counted(left_out, 'kernel')}" if left_out else ""
    if against:
        return f"triton {report.new} cannot replace {report.old} here: {', '.join(against)}{rest}"
    if left_out == len(report.kernels):
        return "nothing was compared"
    return f"nothing stands against triton {report.new} in the place of {report.old}{rest}"


def difference_text(found: ValueDifference) -> str:
    """Return for example `y: 3 of 64 elements differ, …; the new one is right`."""
    return f"{distance_text(found.difference)}; {found.right}"


def failure_text(failure: BuildFailure) -> str:
    """Return what is gone and where, or the message."""
    if not failure.removed:
        return " ".join(failure.message.split())
    place = f" ({failure.source})" if failure.source else ""
    return f"{failure.removed}{place}"


def growth_text(growth: Growth) -> str:
    costs = ", fewer programs on an SM" if growth.costs_programs else ""
    return f"{growth.figure} {growth.before} -> {growth.now}{costs}"


def _rows(report: UpgradeReport, of_kernel: Callable[[KernelUpgrade], Iterator[str]]) -> list[str]:
    return [row for kernel in report.kernels for row in of_kernel(kernel)]


def _removed(kernel: KernelUpgrade) -> Iterator[str]:
    yield from _failing(kernel, [failure for failure in kernel.failures if failure.removed])


def _broken(kernel: KernelUpgrade) -> Iterator[str]:
    yield from _failing(kernel, [failure for failure in kernel.failures if not failure.removed])


def _failing(kernel: KernelUpgrade, failures: Iterable[BuildFailure]) -> Iterator[str]:
    builds: dict[str, list[tuple[str, str]]] = {}
    for failure in failures:
        builds.setdefault(failure_text(failure), []).append((failure.config, failure.device))
    for text, places in builds.items():
        yield f"{kernel.kernel}: {_places(places)}"
        yield f"  {_cut(text, LINE_WIDTH)}"


def _different(kernel: KernelUpgrade) -> Iterator[str]:
    """Yield the first difference for each answer to the question which release is right."""
    for right in dict.fromkeys(found.right for found in kernel.differences):
        same = [found for found in kernel.differences if found.right is right]
        first = same[0]
        yield f"{kernel.kernel}: {right}"
        yield f"  {distance_text(first.difference)}"
        if first.why:
            yield f"  {_cut(' '.join(first.why.split()), LINE_WIDTH)}"
        cases = len({found.case for found in same})
        yield f"  {_cut(first.case, LINE_WIDTH)}"
        if cases > 1:
            yield f"  and in {counted(cases - 1, 'more case')}"


def _growing(kernel: KernelUpgrade) -> Iterator[str]:
    builds: dict[str, list[tuple[str, str]]] = {}
    for growth in kernel.growths:
        builds.setdefault(growth_text(growth), []).append((growth.config, growth.device))
    for text, places in builds.items():
        yield f"{kernel.kernel}: {text}"
        yield f"  {_places(places)}"


def _rounding(kernel: KernelUpgrade) -> Iterator[str]:
    if kernel.farthest is not None:
        differing = kernel.launches - kernel.equal_launches
        yield f"{kernel.kernel}: {differing} of {counted(kernel.launches, 'launch')}; {distance_text(kernel.farthest)}"


def _not_compared(kernel: KernelUpgrade) -> Iterator[str]:
    if kernel.verdict is UpgradeVerdict.NOT_COMPARED:
        yield from (f"{kernel.kernel}: {_cut(reason, LINE_WIDTH)}" for reason in kernel.not_compared[:1])


def _unloadable(report: UpgradeReport) -> Iterator[str]:
    for each in report.unloadable:
        yield each.suite
        yield from (f"  {name}: {_cut(why, LINE_WIDTH)}" for name, why in (("old", each.old), ("new", each.new)) if why)


def _endings(report: UpgradeReport) -> Iterator[str]:
    endings = Counter((ending.old, ending.new) for ending in report.endings)
    for (old, new), count in endings.most_common():
        first = next(ending.case for ending in report.endings if (ending.old, ending.new) == (old, new))
        yield f"{counted(count, 'case')}, such as {_cut(first, LINE_WIDTH)}"
        yield f"  old: {_cut(old or COMPLETED, LINE_WIDTH)}"
        yield f"  new: {_cut(new or COMPLETED, LINE_WIDTH)}"


def distance_text(difference: Difference) -> str:
    """Return how many elements of an argument differ, and by how much."""
    text = f"{difference.differing} of {difference.elements} elements of {difference.argument} differ"
    if not difference.is_floating:
        return f"{text}, of type {difference.dtype}"
    if not difference.ulps:
        return f"{text}, in the sign of zero"
    return f"{text}, by up to {difference.ulps:.3g} ulps"


def _places(places: Sequence[tuple[str, str]]) -> str:
    """Return the configs and devices of builds, shortened."""
    configs, devices = (list(dict.fromkeys(column)) for column in zip(*places, strict=True))
    config = short_config(configs[0])
    more = f" and {counted(len(configs) - 1, 'more config')}" if len(configs) > 1 else ""
    return _cut(f"({config}){more} on {', '.join(devices)}", LINE_WIDTH)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
