"""Every planted failure shrinks to the one case that is expected."""

from collections.abc import Generator, Iterable
from dataclasses import replace

import pytest

from harness.errors import WorkerError
from harness.model.case import Case, DType, Layout, ValueDistribution
from harness.model.verdict import Severity, Signature
from harness.search.campaign_statistics import Trial
from harness.search.launch_feedback import LaunchFeedback
from harness.search.shrinking import Shrinking, ShrinkLimits
from harness.search.sort_key import sort_key
from harness.search.strategies import Batch
from tests.search.fakes import DEVICE, KERNEL, OP, SIMPLEST, Shows, with_dims
from tests.search.shrinks import Shrunk, shrink

SIGNATURE = Signature(
    oracle="write-overlap", severity=Severity.WARNING, op=OP.id, kernel=KERNEL, place="layernorm.py:431"
)
LIMITS = ShrinkLimits(runs=300, seconds=60.0)
BATCH = Batch(
    op=OP, device=DEVICE, feedback=LaunchFeedback(tile_sizes=frozenset({32}), configs={KERNEL: 6}), seed=6, size=200
)


def worst(shows: Shows) -> Trial:
    """Return the drawn failing case with the largest sort key."""
    failing = [case for case in BATCH.draw() if shows(case)]
    case = max(failing, key=lambda case: sort_key(OP, case, DEVICE.sm_count))
    return Trial(number=0, op=OP, case=case, batch=BATCH, home_sm_count=DEVICE.sm_count)


def shrunk(shows: Shows, trial: Trial | None = None, limits: ShrinkLimits = LIMITS) -> Shrunk:
    return shrink(trial or worst(shows), SIGNATURE, shows, limits)


@pytest.mark.parametrize(
    ("shows", "target"),
    [
        (lambda _: True, SIMPLEST),
        (lambda case: case.dims["T"] >= 37, with_dims(T=37)),
        (lambda case: case.dims["T"] % case.device.sm_count > 7, with_dims(T=8)),
        (lambda case: case.dims["T"] * case.dims["D"] > 100, with_dims(T=1, D=101)),
        (lambda case: case.dims["T"] > case.device.sm_count, with_dims(T=189)),
        (lambda case: case.dims["G"] > 1 and case.dims["T"] > 2, with_dims(T=3, G=2)),
        (lambda case: case.dims["T"] == case.dims["D"] + 1, with_dims(T=2, D=1)),
        (lambda case: case.dtype is DType.BF16, replace(SIMPLEST, dtype=DType.BF16)),
        (lambda case: case.configs.get(KERNEL, 0) >= 3, replace(SIMPLEST, configs={KERNEL: 3})),
        (lambda case: "weight" not in case.absent, replace(SIMPLEST, absent=("residual",))),
        (lambda case: case.values is ValueDistribution.LARGE, replace(SIMPLEST, values=ValueDistribution.LARGE)),
        (
            lambda case: case.layout_of("grad") is Layout.EXPANDED and case.dims["T"] > 4,
            replace(with_dims(T=5), layouts={"grad": Layout.EXPANDED}),
        ),
        (
            lambda case: case.layout_of("x") is not Layout.CONTIGUOUS,
            replace(SIMPLEST, layouts={"x": Layout.OFFSET}),
        ),
    ],
)  # fmt: skip
def test_a_drawn_case_shrinks_to(shows: Shows, target: Case) -> None:
    result = shrunk(shows)
    assert (str(result.case), result.complete) == (str(target), True)


def test_a_case_that_was_not_drawn_shrinks_by_moves_alone() -> None:
    case = replace(SIMPLEST, dims={"T": 944, "D": 31, "G": 2}, absent=(), dtype=DType.FP16, seed=44)
    trial = Trial(number=0, op=OP, case=case, batch=None, home_sm_count=DEVICE.sm_count)
    assert shrunk(lambda case: case.dims["T"] >= 37, trial).case == with_dims(T=37)


def test_a_failure_that_depends_on_the_element_count_shrinks_fully() -> None:
    trial = Trial(number=0, op=OP, case=with_dims(T=3, D=34), batch=None, home_sm_count=DEVICE.sm_count)
    assert shrunk(lambda case: case.dims["T"] * case.dims["D"] > 100, trial).case == with_dims(T=1, D=101)


def test_the_devices_own_sm_count_is_used_if_it_shows_the_failure() -> None:
    case = replace(with_dims(T=500), device=DEVICE.with_sm_count(20))
    trial = Trial(number=0, op=OP, case=case, batch=None, home_sm_count=DEVICE.sm_count)
    assert shrunk(lambda case: case.dims["T"] >= 30, trial).case == with_dims(T=30)


def test_another_sm_count_stays_if_the_failure_needs_it() -> None:
    device = DEVICE.with_sm_count(20)
    trial = Trial(
        number=0, op=OP, case=replace(with_dims(T=500), device=device), batch=None, home_sm_count=DEVICE.sm_count
    )
    result = shrunk(lambda case: case.device == device and case.dims["T"] > 20, trial)
    assert result.case == replace(with_dims(T=21), device=device)


def test_configs_of_other_programs_kernels_are_dropped_by_halves() -> None:
    case = replace(SIMPLEST, configs={f"kernel_{number:02}": 1 for number in range(40)})
    trial = Trial(number=0, op=OP, case=case, batch=None, home_sm_count=DEVICE.sm_count)
    few = ShrinkLimits(runs=24, seconds=60.0)
    result = shrunk(lambda case: case.configs.get("kernel_29") == 1, trial, few)
    assert result.case == replace(SIMPLEST, configs={"kernel_29": 1})


def test_configs_that_do_not_matter_go_before_the_runs_are_used_up() -> None:
    configs = {"needed": 2, "one_kernel": 3, "other_kernel": 1}
    case = replace(SIMPLEST, dims={"T": 944, "D": 31, "G": 2}, configs=configs)
    trial = Trial(number=0, op=OP, case=case, batch=None, home_sm_count=DEVICE.sm_count)
    few = ShrinkLimits(runs=14, seconds=60.0)
    result = shrunk(lambda case: case.configs.get("needed") == 2 and case.dims["T"] > 500, trial, few)
    assert (result.complete, result.case.configs) == (False, {"needed": 2})


def test_no_case_runs_twice() -> None:
    ran: list[str] = []

    def shows(case: Case) -> bool:
        ran.append(case.digest)
        return case.dims["T"] >= 37 and case.dims["D"] % 5 == 3

    trial = worst(lambda case: case.dims["T"] >= 37 and case.dims["D"] % 5 == 3)
    result = shrunk(shows, trial)
    assert (result.case, len(ran)) == (with_dims(T=37, D=3), len(set(ran)))
    assert trial.case.digest not in ran


def test_the_run_limit_is_kept_and_the_simplest_case_returned() -> None:
    ran: list[Case] = []

    def shows(case: Case) -> bool:
        ran.append(case)
        return case.dims["T"] * case.dims["D"] > 1000

    trial = worst(lambda case: case.dims["T"] * case.dims["D"] > 1000)
    result = shrunk(shows, trial, ShrinkLimits(runs=12, seconds=60.0))
    assert (len(ran), result.runs, result.complete) == (12, 12, False)
    assert sort_key(OP, result.case, DEVICE.sm_count) < sort_key(OP, trial.case, DEVICE.sm_count)


def test_without_time_nothing_runs() -> None:
    trial = worst(lambda case: case.dims["T"] > 1)
    assert shrunk(lambda _: pytest.fail("ran"), trial, ShrinkLimits(runs=300, seconds=0.0)) == Shrunk(
        case=trial.case, runs=0, complete=False
    )


def test_a_harness_error_propagates() -> None:
    def shows(_: Case) -> bool:
        raise WorkerError("no more processes")

    with pytest.raises(WorkerError, match="no more processes"):
        shrunk(shows, worst(lambda case: case.dims["T"] > 1))


def test_an_interrupt_ends_shrinking_at_once() -> None:
    def shows(_: Case) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shrunk(shows, worst(lambda case: case.dims["T"] > 1))


def test_moves_are_tried_in_the_order_in_which_they_are_ready() -> None:
    asked: list[list[Case]] = []
    ran: list[Case] = []

    def first_last(cases: Iterable[Case]) -> Generator[Case]:
        asked.append(list(cases))
        yield from (*asked[-1][1:], *asked[-1][:1])

    def shows(case: Case) -> bool:
        ran.append(case)
        return case.dims["T"] >= 37

    trial = worst(lambda case: case.dims["T"] >= 37)
    shrinking = Shrinking(trial, SIGNATURE, shows, LIMITS, first_last)
    shrinking.turn(LIMITS.seconds)
    assert (shrinking.case, shrinking.is_complete) == (with_dims(T=37), True)
    first = next(cases for cases in asked if len(cases) > 1)
    assert ran.index(first[1]) < ran.index(first[0])


def test_a_move_that_has_run_is_not_made_ready_again() -> None:
    asked: list[Case] = []

    def at_once(cases: Iterable[Case]) -> Generator[Case]:
        for case in cases:
            asked.append(case)
            yield case

    trial = worst(lambda case: case.dims["T"] >= 37 and case.dims["D"] % 5 == 3)
    Shrinking(trial, SIGNATURE, lambda case: case.dims["T"] >= 37 and case.dims["D"] % 5 == 3, LIMITS, at_once).turn(
        LIMITS.seconds
    )
    assert len(asked) == len({case.digest for case in asked})
