"""The verdict on each kernel: its joined builds, and the launches of the cases that ran with both releases."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from harness.documents.upgrade_report import (
    BuildFailure,
    Growth,
    KernelUpgrade,
    Right,
    UpgradeVerdict,
    ValueDifference,
)
from harness.matrix.baseline import lasting_config
from harness.matrix.cells import Cell
from harness.matrix.kernel_summaries import scratch_of
from harness.model.case import Case
from harness.model.launch_difference import Difference
from harness.upgrade.case_records import ComparedCase, ComparedLaunch
from harness.upgrade.joined_builds import JoinedBuild
from harness.upgrade.judging import Judgement, right_of

MOST_DIFFERENCES = 8
"""The most differences of a kernel that the report keeps, the first of each case."""
REGISTERS = "registers"
ONLY_OLD = "the new release does not launch it"
ONLY_NEW = "the old release does not launch it"
NO_LAUNCH = "its code differs, and no case launches it with both"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedCase:
    """A case that ran with both releases; judged if a launch differs."""

    case: Case
    compared: ComparedCase
    old: Judgement | None = None
    new: Judgement | None = None

    @property
    def suite(self) -> str:
        return self.case.op.rpartition(":")[0]

    @property
    def right(self) -> tuple[Right, str]:
        """Which release agrees with the definition, and what a wrong one has."""
        if self.old is None or self.new is None:
            return Right.UNKNOWN, ""
        return right_of(self.old, self.new)


@dataclass(slots=True)
class _Kernel:
    """The builds of one kernel of a suite, and its launches in all cases."""

    builds: list[JoinedBuild] = field(default_factory=list[JoinedBuild])
    compared: int = 0
    equal: int = 0
    differences: list[ValueDifference] = field(default_factory=list[ValueDifference])
    explained: list[Difference] = field(default_factory=list[Difference])
    skipped: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def compiled(self) -> list[JoinedBuild]:
        """The builds that both releases compile."""
        return [build for build in self.builds if build.is_compared]

    @property
    def is_same_code(self) -> bool:
        return all(build.same_code for build in self.compiled)

    @property
    def is_same_ttir(self) -> bool:
        return all(build.same_ttir for build in self.compiled)


def kernel_upgrades(
    builds: Iterable[JoinedBuild], cases: Iterable[ExaminedCase], *, executes_ptx: bool
) -> tuple[KernelUpgrade, ...]:
    """Return what the upgrade means for each kernel of each suite, the worst first."""
    kernels: dict[tuple[str, str], _Kernel] = defaultdict(_Kernel)
    for build in builds:
        kernels[build.suite, build.kernel].builds.append(build)
    for case in cases:
        for launch in case.compared.launches:
            _add(kernels[case.suite, launch.kernel], case, launch)
    order = list(UpgradeVerdict)
    found = (_upgrade(name, suite, kernel, executes_ptx=executes_ptx) for (suite, name), kernel in kernels.items())
    return tuple(sorted(found, key=lambda each: -order.index(each.verdict)))


def _add(kernel: _Kernel, case: ExaminedCase, launch: ComparedLaunch) -> None:
    if launch.skipped:
        kernel.skipped.setdefault(launch.skipped)
        return
    kernel.compared += 1
    kernel.equal += not launch.differences
    right, why = case.right
    for difference in launch.differences:
        if difference.is_explained and right is not Right.OLD:
            kernel.explained.append(difference)
        else:
            kernel.differences.append(ValueDifference(case=str(case.case), difference=difference, right=right, why=why))


def _upgrade(name: str, suite: str, kernel: _Kernel, *, executes_ptx: bool) -> KernelUpgrade:
    failures = tuple(_failures(kernel.builds))
    growths = tuple(sorted(_growths(kernel.compiled), key=lambda growth: -growth.now / max(1, growth.before)))
    is_known = bool(kernel.compared) or (
        bool(kernel.compiled) and (kernel.is_same_code or (kernel.is_same_ttir and not executes_ptx))
    )
    return KernelUpgrade(
        kernel=name,
        suite=suite,
        source=kernel.builds[0].cell.kernel.source if kernel.builds else None,
        verdict=_verdict(kernel, failures, growths, is_known=is_known, executes_ptx=executes_ptx),
        builds=len(kernel.compiled),
        same_code=sum(build.same_code for build in kernel.compiled),
        same_ttir=sum(build.same_ttir for build in kernel.compiled),
        launches=kernel.compared,
        equal_launches=kernel.equal,
        more_registers=sum(_has_more_registers(build) for build in kernel.compiled),
        growths=growths,
        failures=failures,
        differences=tuple(kernel.differences[:MOST_DIFFERENCES]),
        farthest=max(kernel.explained, key=lambda difference: difference.ulps, default=None),
        not_compared=tuple(_reasons(kernel, is_known=is_known)),
    )


def _verdict(
    kernel: _Kernel,
    failures: tuple[BuildFailure, ...],
    growths: tuple[Growth, ...],
    *,
    is_known: bool,
    executes_ptx: bool,
) -> UpgradeVerdict:
    """Return the worst that was seen."""
    if failures:
        is_removed = any(failure.removed for failure in failures)
        return UpgradeVerdict.REMOVED if is_removed else UpgradeVerdict.FAILS
    if kernel.differences:
        rights = {difference.right for difference in kernel.differences}
        return UpgradeVerdict.NEW_IS_RIGHT if rights == {Right.NEW} else UpgradeVerdict.DIFFERENT
    if not is_known:
        return UpgradeVerdict.NOT_COMPARED
    if growths:
        return UpgradeVerdict.NEEDS_MORE
    if kernel.explained:
        return UpgradeVerdict.ROUNDING
    if kernel.compiled and kernel.is_same_code:
        return UpgradeVerdict.SAME_CODE
    if kernel.compiled and kernel.is_same_ttir and not executes_ptx:
        return UpgradeVerdict.SAME_TTIR
    return UpgradeVerdict.SAME_BITS


def _reasons(kernel: _Kernel, *, is_known: bool) -> Iterator[str]:
    """Yield why builds or launches were not compared."""
    yield from kernel.skipped
    if kernel.builds and all(build.new is None for build in kernel.builds):
        yield ONLY_OLD
    elif kernel.builds and all(build.old is None for build in kernel.builds):
        yield ONLY_NEW
    elif not kernel.compiled and (failure := _old_failure(kernel)):
        yield f"the old release does not compile it: {failure}"
    elif not is_known and not kernel.skipped:
        yield NO_LAUNCH
    unknown = (cell.facts.unknown for build in kernel.builds for cell in (build.old, build.new) if cell is not None)
    yield from dict.fromkeys(filter(None, unknown))


def _old_failure(kernel: _Kernel) -> str:
    """Return why the old release does not compile the kernel; empty if it does."""
    return next((build.old.facts.failure for build in kernel.builds if build.old and build.old.facts.failure), "")


def _failures(builds: Iterable[JoinedBuild]) -> Iterator[BuildFailure]:
    """Yield the builds that fit their GPU with the old release alone, as far as pruning keeps them."""
    for build in builds:
        old, new = build.old, build.new
        if old is None or new is None or not old.fits or not new.shortages or not new.build.is_kept:
            continue
        facts = new.facts
        yield BuildFailure(
            config=lasting_config(old.build.config),
            device=old.device,
            message=facts.failure or new.shortages[0].seen,
            removed=new.build.removed,
            source=facts.failure_source,
        )


def _growths(builds: Iterable[JoinedBuild]) -> Iterator[Growth]:
    """Yield the figures that are larger with the new release; registers only where they cost programs."""
    for build in builds:
        assert build.old is not None
        assert build.new is not None
        for figure, before, now in _figures(build.old, build.new):
            costs_programs = build.new.programs_per_sm < build.old.programs_per_sm
            if now > before and (figure != REGISTERS or costs_programs):
                yield Growth(
                    figure=figure,
                    config=lasting_config(build.old.build.config),
                    device=build.old.device,
                    before=before,
                    now=now,
                    costs_programs=costs_programs,
                )


def _figures(old: Cell, new: Cell) -> Iterator[tuple[str, int, int]]:
    before, now = old.facts, new.facts
    yield REGISTERS, before.registers_per_thread, now.registers_per_thread
    yield "shared bytes", before.shared_bytes, now.shared_bytes
    yield "local bytes", before.local_bytes_per_thread, now.local_bytes_per_thread
    yield "scratch bytes", scratch_of(before), scratch_of(now)


def _has_more_registers(build: JoinedBuild) -> bool:
    assert build.old is not None
    assert build.new is not None
    return build.new.facts.registers_per_thread > build.old.facts.registers_per_thread
