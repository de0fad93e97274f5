"""The table of `--survey conformance`: how far emulated and hardware GPU agree, by kernel and argument."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from harness.model.launch_difference import Difference
from harness.model.run import Completed, Refused, Run
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.oracles.agreement import sentence
from harness.oracles.completes import Completes
from harness.oracles.endings import describe, is_gone
from harness.wording import counted

EACH = 3
"""Differences of one argument of a kernel that are listed one by one."""


@dataclass(slots=True)
class Compared:
    """The comparison of all cases so far."""

    gpu: str = ""
    cases: int = 0
    launches: int = 0
    tensors: defaultdict[tuple[str, str, str], list[Difference]] = field(
        default_factory=lambda: defaultdict[tuple[str, str, str], list[Difference]](list)
    )
    """By kernel, argument and type."""
    unexplained: list[tuple[Difference, str]] = field(default_factory=list[tuple[Difference, str]])
    """Each with its case."""
    by_compiler: list[tuple[Difference, str]] = field(default_factory=list[tuple[Difference, str]])
    """Each with its case: differences that disappear with fewer compiler optimisations."""
    skipped: Counter[str] = field(default_factory=Counter[str])
    broken: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict[str, list[str]](list))
    """Cases that did not complete, by op and ending."""
    broken_by_compiler: int = 0
    """Broken cases that complete with fewer compiler optimisations."""

    def add(self, run: Run, again: Run | None = None) -> None:
        """Add a case; `again` is its rerun at -O0, if a launch ended the hardware GPU's context."""
        self.cases += 1
        if not isinstance(run.ending, Completed | Refused):
            self.broken[f"{run.case.op_name}: {_how_it_broke(run, again)}"].append(str(run.case))
            self.broken_by_compiler += again is not None and is_gone(run, again)
        if run.agreement is None:
            return
        self.gpu = run.agreement.gpu
        self.launches += run.agreement.launches
        self.skipped.update(reason for _, reason in run.agreement.skipped)
        for difference in run.agreement.differences:
            self.tensors[difference.kernel, difference.argument, difference.dtype].append(difference)
            if not difference.is_explained:
                kept = self.unexplained if difference.agrees_once is None else self.by_compiler
                kept.append((difference, str(run.case)))

    @property
    def agrees(self) -> bool:
        """True if launches were compared and there are no findings."""
        return bool(self.launches) and not self.has_findings

    @property
    def has_findings(self) -> bool:
        """True if the GPUs differ for any reason, or a case did not complete."""
        return bool(self.unexplained or self.by_compiler or self.broken)


def lines(compared: Compared) -> Iterator[str]:
    """Yield the arguments that differ in any launch, the broken cases, the differences, and the conclusion."""
    rows = [
        _row(names, differences)
        for names, differences in compared.tensors.items()
        if any(difference.differing for difference in differences)
    ]
    if rows:
        yield from _columns(("kernel", "argument", "type", "tensors", "equal", "of the largest", "of rounding"), rows)
        yield ""
    for reason, count in compared.skipped.most_common():
        yield f"{counted(count, 'launch')} not compared: {reason}"
    for broken, cases in sorted(compared.broken.items(), key=lambda item: -len(item[1])):
        yield f"{counted(len(cases), 'case')} of {broken}; {cases[0]}"
    for word, apart in (("compiler", compared.by_compiler), ("unexplained", compared.unexplained)):
        listed = Counter[tuple[str, str]]()
        for difference, case in apart:
            listed[difference.kernel, difference.argument] += 1
            if listed[difference.kernel, difference.argument] <= EACH:
                yield f"{word}: {difference.kernel}: {sentence(difference, compared.gpu, None)}; {case}"
        for (kernel, argument), count in listed.items():
            if count > EACH:
                yield f"{word}: {kernel}: {argument} in {counted(count - EACH, 'more launch')}"
    yield conclusion(compared)


def conclusion(compared: Compared) -> str:
    """Return the last line."""
    tensors = [tensor for of_argument in compared.tensors.values() for tensor in of_argument]
    equal = sum(not tensor.differing for tensor in tensors)
    explained = sum(tensor.is_explained and tensor.doubt is not None for tensor in tensors)
    kernels = len({kernel for kernel, _, _ in compared.tensors})
    rounded = len(tensors) - equal - explained - len(compared.by_compiler) - len(compared.unexplained)
    return (
        f"{counted(compared.launches, 'launch')} of {counted(kernels, 'kernel')} in "
        f"{counted(compared.cases, 'case')}, repeated on the {compared.gpu or 'hardware GPU'}: "
        f"of {counted(len(tensors), 'tensor')} {equal} are equal bit for bit, {rounded} differ by a few roundings, "
        f"{explained} by what rounding explains, {len(compared.by_compiler)} by a compiler error, and "
        f"{len(compared.unexplained)} unexplained; "
        f"{counted(sum(map(len, compared.broken.values())), 'case')} broke off, {compared.broken_by_compiler} of them "
        "by a compiler error"
    )


def _how_it_broke(run: Run, again: Run | None) -> str:
    """Return the message of its finding in one line, or its ending if there is no finding."""
    paired = {} if again is None else {again.case.digest: again}
    verdicts = registry.judge_all(run, paired, {}, oracles=(Completes(),))
    messages = [verdict.message for verdict in verdicts if isinstance(verdict, Fail)]
    return (messages or [describe(run.ending)])[0].splitlines()[0]


def _row(names: tuple[str, str, str], differences: Sequence[Difference]) -> tuple[str, ...]:
    equal = sum(not difference.differing for difference in differences)
    doubts = [difference.doubt for difference in differences if difference.doubt is not None]
    scaled = max(difference.scaled for difference in differences)
    return (*names, str(len(differences)), str(equal), f"{scaled:.2g}", f"{max(doubts):.2g}" if doubts else "-")


def _columns(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    table = [heads, *rows]
    widths = [max(len(row[at]) for row in table) for at in range(len(heads))]
    for row in table:
        cells = [
            f"{cell:<{width}}" if at < 3 else f"{cell:>{width}}"  # names to the left, numbers to the right
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
