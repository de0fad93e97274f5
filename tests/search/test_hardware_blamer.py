"""Blame for failures on a hardware GPU follows from what the repeats of the case show."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import cycle
from threading import Barrier

import pytest

from harness.engines.triton.assemblers import Assembler, Assemblers
from harness.errors import WorkerError
from harness.model.hardware_blame import Blame, HardwareBlame
from harness.model.kernel_assembly import KernelAssembly
from harness.model.run import Completed, Ending, HungParty, Launch, Raised, Run, TimedOut
from harness.model.verdict import Fail, Pass, Severity, Signature
from harness.search.hardware_blamer import AS_IT_IS, HardwareBlamer
from harness.search.judge import Examination
from tests.search.fakes import KERNEL, SIMPLEST, DifferingRunner, clean
from tests.workers.setting import DEADLINE_S

OTHER = Assembler(path="/triton/ptxas-blackwell", version="12.9.86")
SIGNATURE = Signature(oracle="float64-values", severity=Severity.ERROR, op="", kernel=KERNEL, place="dx")
KERNELS = ("first", "second", KERNEL, "fourth", "fifth")
HANG = TimedOut(limit_s=60.0, waiting=HungParty.DEVICE, launch=KERNEL, log_tail="")
REFUSAL = Raised(kind="PTXASError", message="", source=None, phase="forward", traceback="")


def blamer() -> HardwareBlamer:
    usual = Assembler(path="/triton/ptxas", version="12.8.93")
    return HardwareBlamer(assemblers=Assemblers(usual=usual, other=OTHER), target="sm_90a")


def failure(signature: Signature = SIGNATURE) -> Fail:
    return Fail(signature=signature, message="dx[0] is 2 for 1", meaning="a term is wrong")


def examination(*fails: Signature, ending: Ending = Completed()) -> Examination:  # noqa: B008 - frozen
    run: Run = clean(SIMPLEST)
    launches: tuple[Launch, ...] = tuple(replace(run.launches[0], kernel=kernel) for kernel in KERNELS)
    verdicts = tuple(map(failure, fails)) or (Pass(oracle=SIGNATURE.oracle),)
    return Examination(run=replace(run, ending=ending, launches=launches), verdicts=verdicts)


SHOWN, GONE = examination(SIGNATURE), examination()


@dataclass
class FakeRuns:
    """Repeats a case whose failure is known."""

    mended_by: Callable[[KernelAssembly], Examination] = lambda _: SHOWN
    virtual: Examination = GONE
    as_is: Iterator[Examination] = field(default_factory=lambda: cycle([SHOWN]))
    asked: list[KernelAssembly] = field(default_factory=list[KernelAssembly])

    def as_it_is(self) -> Examination:
        return next(self.as_is)

    def assembled(self, assembly: KernelAssembly) -> Examination:
        self.asked.append(assembly)
        return self.mended_by(assembly)

    def on_virtual_gpu(self) -> Examination:
        return self.virtual


def miscompiled(*kernels: str, also_without_optimisation: bool = False) -> Callable[[KernelAssembly], Examination]:
    """The usual assembler makes wrong code of these kernels."""

    def run(assembly: KernelAssembly) -> Examination:
        if not assembly.optimises and also_without_optimisation:
            return SHOWN
        return GONE if not assembly.kernels or set(kernels) <= set(assembly.kernels) else SHOWN

    return run


def blame(runs: FakeRuns, by: HardwareBlamer | None = None, confirmed: Examination = SHOWN) -> HardwareBlame:
    *_, last = (by or blamer()).blames(failure(), confirmed, runs)
    return last


def test_the_library_is_at_fault_if_the_virtual_gpu_shows_it() -> None:
    runs = FakeRuns(virtual=SHOWN)
    assert blame(runs) == HardwareBlame(blame=Blame.LIBRARY, evidence=("the virtual GPU shows it",))
    assert runs.asked == []


@pytest.mark.parametrize("oracle", ["wrong-value", "precision"])
def test_exact_arithmetic_on_the_virtual_gpu_decides_about_wrong_values(oracle: str) -> None:
    exact = replace(SIGNATURE, oracle=oracle, severity=Severity.WARNING)
    blamed = blame(FakeRuns(virtual=examination(exact)))
    assert (blamed.blame, blamed.exact) == (Blame.LIBRARY, failure(exact))
    assert blamed.evidence == (
        "the virtual GPU shows it",
        f"there exact arithmetic decides: a failure of `{oracle}`",
    )


def test_a_stray_access_of_the_same_kernel_on_the_virtual_gpu_blames_the_library() -> None:
    stray = replace(SIGNATURE, oracle="bounds", place="norm.py:431")
    assert blame(FakeRuns(virtual=examination(stray))).blame is Blame.LIBRARY
    assert blame(FakeRuns(virtual=examination(replace(stray, kernel="first")))).blame is not Blame.LIBRARY
    assert blame(FakeRuns(virtual=examination(replace(stray, severity=Severity.WARNING)))).blame is not Blame.LIBRARY


def test_triton_is_at_fault_if_every_assembly_shows_it() -> None:
    assert blame(FakeRuns()) == HardwareBlame(
        blame=Blame.TRITON,
        evidence=(
            "the virtual GPU does not show it",
            "as it is, 3 of 3 runs show it",
            "ptxas 12.9.86 shows it",
            "ptxas 12.8.93 -O0 shows it",
        ),
    )


def test_the_assembler_is_at_fault_if_another_one_mends_the_kernel() -> None:
    found = blame(FakeRuns(miscompiled(KERNEL)))
    assert found == HardwareBlame(
        blame=Blame.ASSEMBLER,
        assembler="ptxas 12.8.93 for sm_90a",
        kernels=(KERNEL,),
        mended_by=("ptxas 12.9.86", "ptxas 12.8.93 -O0"),
        evidence=(
            "the virtual GPU does not show it",
            "as it is, 3 of 3 runs show it",
            "ptxas 12.9.86 does not show it in 2 runs",
            "ptxas 12.8.93 -O0 does not show it in 2 runs",
            f"ptxas 12.9.86 for {KERNEL} alone does not show it",
        ),
    )
    assert found.cause == "ptxas 12.8.93 for sm_90a makes wrong code"
    assert found.verdict == (
        f"ptxas 12.8.93 for sm_90a miscompiles {KERNEL}: right with ptxas 12.9.86 and ptxas 12.8.93 -O0"
    )


def test_the_assembler_is_blamed_before_its_kernels_are_known() -> None:
    def breaks_down(assembly: KernelAssembly) -> Examination:
        if assembly.kernels:
            raise WorkerError("the pool was closed")
        return GONE

    (first,) = blamer().blames(failure(), SHOWN, FakeRuns(breaks_down))
    assert (first.blame, first.kernels) == (Blame.ASSEMBLER, ())
    assert first.cause == "ptxas 12.8.93 for sm_90a makes wrong code"


@pytest.mark.parametrize("kernels", [("second",), ("first", "fifth"), ("second", KERNEL, "fourth"), KERNELS])
def test_the_miscompiled_kernels_are_the_smallest_set_that_mends_the_case(kernels: tuple[str, ...]) -> None:
    assert blame(FakeRuns(miscompiled(*kernels))).kernels == kernels


def test_the_assembler_without_optimisation_may_be_the_only_one_that_mends() -> None:
    def run(assembly: KernelAssembly) -> Examination:
        return SHOWN if assembly.optimises else miscompiled("first")(assembly)

    found = blame(FakeRuns(run))
    assert (found.blame, found.kernels) == (Blame.ASSEMBLER, ("first",))
    assert "ptxas 12.9.86 shows it" in found.evidence


def test_all_failures_of_one_miscompilation_have_the_same_cause() -> None:
    by = blamer()
    first = blame(FakeRuns(miscompiled("second")), by)
    runs = FakeRuns(miscompiled("second", also_without_optimisation=True))
    second = blame(runs, by)
    assert (second.cause, second.kernels) == (first.cause, first.kernels)
    assert set(runs.asked) == {KernelAssembly(ptxas=OTHER.path, kernels=("second",))}


def test_a_failure_that_varies_and_that_no_assembly_mends_is_a_race() -> None:
    found = blame(FakeRuns(as_is=cycle([SHOWN, GONE])))
    assert found.blame is Blame.RACE
    assert "as it is, 5 of 8 runs show it" in found.evidence


def test_other_values_in_each_run_are_a_race() -> None:
    (result,) = DifferingRunner(make=clean).run(SIMPLEST).results

    def with_digest(digest: str) -> Examination:
        return replace(SHOWN, run=replace(SHOWN.run, results=(replace(result, digest=digest),)))

    found = blame(FakeRuns(as_is=map(with_digest, "abcdefgh")))
    assert found.blame is Blame.RACE
    assert "as it is, 3 of 3 runs show it, with other values each time" in found.evidence


def test_a_failure_that_varies_needs_more_runs_before_a_build_mends_it() -> None:
    runs = FakeRuns(miscompiled(KERNEL), as_is=cycle([SHOWN, GONE]))
    assert blame(runs).blame is Blame.ASSEMBLER
    assert runs.asked.count(KernelAssembly(ptxas=OTHER.path)) == 4


def test_a_failure_too_rare_to_tell_has_no_known_cause() -> None:
    runs = FakeRuns(miscompiled(KERNEL), as_is=cycle([GONE]))
    assert blame(runs).blame is Blame.UNKNOWN


def test_builds_that_fail_in_another_way_leave_the_cause_unknown() -> None:
    found = blame(FakeRuns(lambda _: examination(ending=REFUSAL)))
    assert found.blame is Blame.UNKNOWN
    assert "ptxas 12.9.86 leaves it open: it raised PTXASError" in found.evidence


def test_a_case_that_hangs_is_repeated_on_the_virtual_gpu_alone() -> None:
    runs = FakeRuns()
    found = blame(runs, confirmed=examination(SIGNATURE, ending=HANG))
    assert (found.blame, runs.asked) == (Blame.UNKNOWN, [])


def test_a_repeat_that_cannot_run_leaves_the_cause_unknown() -> None:
    def fails(_: KernelAssembly) -> Examination:
        raise WorkerError("the pool was closed")

    found = blame(FakeRuns(fails))
    assert found.blame is Blame.UNKNOWN
    assert found.evidence[-1] == "a repeat failed: the pool was closed"


def test_the_case_is_repeated_as_it_is_several_times_at_once() -> None:
    meeting = Barrier(AS_IT_IS - 1)

    class Meeting(FakeRuns):
        def as_it_is(self) -> Examination:
            meeting.wait(DEADLINE_S)
            return SHOWN

    assert f"as it is, {AS_IT_IS} of {AS_IT_IS} runs show it" in blame(Meeting()).evidence
