"""The order-invariance oracle requests a reversed run if order can matter, and fails on differences."""

from dataclasses import replace

import pytest

from harness.model.case import ProgramOrder
from harness.model.run import MemoryEvent, OrderDependence, Overlap, Residency, Run
from harness.model.verdict import Severity
from harness.oracles.deadlock_messages import sentence
from harness.oracles.order_invariance import OrderInvariance
from tests.oracles.facts import KERNEL, case, deadlocked, judge, launch, line, only_failure, raised, result, run, site

REVERSED = replace(case(), order=ProgramOrder.REVERSED)
ATOMIC = run(launches=(launch(atomics=True),))


def other(**facts: object) -> Run:
    return replace(run(of=REVERSED, launches=ATOMIC.launches), **facts)


def overlap(*, same_bytes: bool) -> Overlap:
    return Overlap(site=site(), same_bytes=same_bytes, cells=1, first_cells=((0,),), programs=(0, 1))


READ = OrderDependence(site=site(), cells=1, first_cells=((0,),), programs=(0, 1))


@pytest.mark.parametrize("memory", [(READ,), (overlap(same_bytes=False),)])
def test_programs_that_share_cells_also_run_in_reversed_order(memory: tuple[MemoryEvent, ...]) -> None:
    assert OrderInvariance().paired_runs(run(memory=memory)) == (REVERSED,)


def test_kernels_with_atomics_also_run_in_reversed_order() -> None:
    assert OrderInvariance().paired_runs(ATOMIC) == (REVERSED,)


@pytest.mark.parametrize("plain", [run(), run(memory=(overlap(same_bytes=True),))])
def test_passes_if_programs_share_no_cells(plain: Run) -> None:
    assert OrderInvariance().paired_runs(plain) == ()
    assert judge(OrderInvariance(), plain) == ["pass"]


def test_a_case_in_reversed_order_requests_no_paired_run() -> None:
    assert OrderInvariance().paired_runs(other()) == ()
    assert judge(OrderInvariance(), other()) == ["abstain: this case is itself the one in reversed order"]


def test_abstains_without_the_reversed_run() -> None:
    assert judge(OrderInvariance(), ATOMIC) == ["abstain: this case was not run in reversed order"]
    assert judge(OrderInvariance(), ATOMIC, other(ending=raised())) == [
        "abstain: in reversed order, RuntimeError was raised in phase backward"
    ]


def test_equal_results_pass_and_others_fail() -> None:
    assert judge(OrderInvariance(), ATOMIC, other()) == ["pass"]
    within = other(results=(result(sketch=(1.015, 2.0)),))
    assert judge(OrderInvariance(), ATOMIC, within) == ["pass"]
    beyond = other(results=(result(sketch=(1.0, 2.5)),))
    assert judge(OrderInvariance(), ATOMIC, beyond) == [
        "error: y differs beyond rounding when the programs of each launch begin in reversed order: most in y[64, 32] "
        "to y[128, 63] (elements 4128 to 8255 of 8256), whose sums with random signs differ by 0.5: 25 times the 0.02 "
        "that rounding allows; 1 of its 2 parts differs"
    ]


def test_a_deadlock_in_reversed_order_is_a_warning() -> None:
    stuck = deadlocked(Residency.AT_LEAST, 600)
    fail = only_failure(OrderInvariance(), ATOMIC, other(ending=stuck))
    assert line(fail) == f"warning: when programs begin in reversed order, {sentence(stuck)}"
    assert (fail.signature.severity, fail.signature.kernel) == (Severity.WARNING, KERNEL)
