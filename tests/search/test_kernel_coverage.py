"""Kernel coverage counts executed and abstained launches from runs."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from itertools import groupby

import pytest

from harness import catalogue
from harness.model.case import Case, Scale
from harness.model.device import DeviceProfile
from harness.model.paired_run import RunRequest
from harness.model.run import Raised, Refused, Run, Unsupported
from harness.reports.coverage_table import lines
from harness.search.kernel_coverage import Coverage, CoverageRequest, CoverageRun, KernelCount, OpCount, measure
from tests.search.fakes import DEVICE, KERNEL, OP, STORE, ImmediateRunner, facts, never

A100 = catalogue.find("a100")
FLA_OP = replace(OP, requires=("fla-core",))
STUCK = Unsupported(what="tt.histogram", kernel=KERNEL, source=STORE, triton_version="3.6.0")
WHY = "tt.histogram (layernorm.py:431)"


def clean(case: Case) -> Run:
    return facts(case, never)


def stuck_where(case: Case, *, begun: int) -> Run:
    """Return a run that abstains after so many launches of the kernel."""
    run = clean(case)
    return replace(run, ending=STUCK, launches=run.launches * begun)


def refused(case: Case) -> Run:
    return Run(case=case, engine="virtual", ending=Refused(message="NotImplementedError: not here"))


def raised(case: Case) -> Run:
    ending = Raised(kind="ValueError", message="odd\nsizes", source=None, phase="forward", traceback="")
    return Run(case=case, engine="virtual", ending=ending)


def covered(make: ImmediateRunner, *devices: DeviceProfile, cases: int = 6) -> Coverage:
    order = CoverageRequest(ops=(FLA_OP,), devices=devices or (DEVICE,), cases=cases, seed=0)
    return measure(order, make, lambda _: None)


@pytest.mark.parametrize("cases", [1, 2, 6, 30])
def test_each_op_gets_distinct_cases_on_each_device_scouts_first(cases: int) -> None:
    runner = ImmediateRunner(clean)
    covered(runner, DEVICE, A100, cases=cases)
    for device in (DEVICE, A100):
        ran = [case for case in runner.ran if case.device == device]
        assert (len(ran), len({case.digest for case in ran})) == (cases, cases)
        assert ran[0].dims == {"T": 48, "D": 48, "G": 1}


def test_ops_take_turns() -> None:
    other = replace(FLA_OP, name="rms_norm")
    runner = ImmediateRunner(clean)
    measure(CoverageRequest(ops=(FLA_OP, other), devices=(DEVICE,), cases=30, seed=0, turn=10), runner, lambda _: None)
    assert [len(tuple(same)) for _, same in groupby(case.op for case in runner.ran)] == [2, 2, 10, 10, 10, 10, 8, 8]
    assert len({(case.op, case.digest) for case in runner.ran}) == 60


def test_nothing_is_drawn_or_waited_for_after_the_deadline() -> None:
    never_done = ImmediateRunner(clean)
    request = CoverageRequest(ops=(FLA_OP,), devices=(DEVICE,), cases=30, seed=0)
    late = CoverageRun(request, never_done, lambda _: None, deadline=time.monotonic())
    late.run()
    assert (never_done.ran, late.coverage.cases, late.is_late) == ([], 0, True)


def test_runs_that_are_done_count_when_the_others_are_not() -> None:
    class HalfRunner(ImmediateRunner):
        def submit(self, request: RunRequest) -> Future[Run]:
            return super().submit(request) if len(self.ran) < 3 else Future()

    request = CoverageRequest(ops=(FLA_OP,), devices=(DEVICE,), cases=30, seed=0)
    running = CoverageRun(request, HalfRunner(clean), lambda _: None, deadline=time.monotonic() + 1)
    running.run()
    assert (running.coverage.cases, running.is_late) == (3, True)


def test_no_case_is_oversized() -> None:
    runner = ImmediateRunner(clean)
    covered(runner, cases=100)
    assert {case.scale for case in runner.ran} == {Scale.USUAL}


def test_the_same_seed_covers_the_same_cases() -> None:
    once, again = ImmediateRunner(clean), ImmediateRunner(clean)
    covered(once)
    covered(again)
    assert once.ran == again.ran


def test_executed_launches_are_counted_by_kernel_and_device() -> None:
    assert covered(ImmediateRunner(clean), DEVICE, A100) == Coverage(
        kernels=(
            KernelCount(library="fla-core", kernel=KERNEL, device="a100", executed=6),
            KernelCount(library="fla-core", kernel=KERNEL, device="rtx-pro-6000", executed=6),
        ),
        ops=(
            OpCount(op=OP.id, device="rtx-pro-6000", launches=6, endings=(("completed", 6),)),
            OpCount(op=OP.id, device="a100", launches=6, endings=(("completed", 6),)),
        ),
    )


@pytest.mark.parametrize(("begun", "executed"), [(0, 0), (1, 0), (2, 1)])
def test_a_launch_that_abstains_is_not_executed(begun: int, executed: int) -> None:
    coverage = covered(ImmediateRunner(lambda case: stuck_where(case, begun=begun)), cases=1)
    kernel = KernelCount(
        library="fla-core", kernel=KERNEL, device="rtx-pro-6000", executed=executed, abstained=((WHY, 1),)
    )
    assert coverage.kernels == (kernel,)
    assert not coverage.whole


@pytest.mark.parametrize(
    ("make", "ending"),
    [
        (refused, "the library declined the case: NotImplementedError: not here"),
        (raised, "ValueError was raised in phase forward: odd"),
    ],
)
def test_an_op_that_launched_nothing_is_not_covered(make: Callable[[Case], Run], ending: str) -> None:
    coverage = covered(ImmediateRunner(make), cases=2)
    silent = OpCount(op=OP.id, device="rtx-pro-6000", launches=0, endings=((ending, 2),))
    assert (coverage.kernels, coverage.silent, coverage.whole) == ((), (silent,), False)


def test_an_op_without_kernels_is_covered_by_its_cases() -> None:
    def make(case: Case) -> Run:
        return replace(clean(case), launches=())

    op = replace(FLA_OP, launches=False)
    order = CoverageRequest(ops=(op,), devices=(DEVICE,), cases=2, seed=0)
    assert measure(order, ImmediateRunner(make), lambda _: None).whole


def test_the_table_lists_abstained_launches_and_uncovered_ops() -> None:
    def make(case: Case) -> Run:
        if case.device == A100:
            return refused(case)
        return stuck_where(case, begun=2) if case.absent else clean(case)

    text = list(lines(covered(ImmediateRunner(make), DEVICE, A100, cases=2), (DEVICE, A100)))
    assert text == [
        "fla-core                 rtx-pro-6000   a100",
        "                               sm_120  sm_80",
        "  layer_norm_bwd_kernel           2/3      -  abstains: tt.histogram (layernorm.py:431)",
        "",
        "cases that did not complete (only launches before the end are counted):",
        f"     1  {OP.id}: the engine cannot execute tt.histogram ({KERNEL}, layernorm.py:431; Triton 3.6.0)",
        f"     2  {OP.id}: the library declined the case: NotImplementedError: not here",
        "",
        "ops that launched nothing (not covered at all):",
        f"  {OP.id} on a100",
        "",
        "3 launches of 1 kernel in 4 cases: 2 executed, 1 abstained (33.3 %)",
    ]


def test_no_launches_give_no_share() -> None:
    assert list(lines(covered(ImmediateRunner(refused), cases=1), (DEVICE,)))[-1] == (
        "0 launches of 0 kernels in 1 case: 0 executed, 0 abstained (none launched)"
    )
