"""The time limit adapts to earlier cases of the op, within the user's limit."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.model.case import Case, Scale
from harness.model.run import STARVED, Completed, Crashed, HungParty, Overtime, Run, TimedOut
from harness.workers.pool import Pool
from harness.workers.supervision import time_limits as limits_module
from harness.workers.supervision.time_limits import FACTOR, FIRST, FLOOR_S, Patience, TimeLimits
from tests.workers.setting import case, specs

MOST_S = 60.0
GOOD = case("good")


def ran(one: Case = GOOD) -> Run:
    return Run(case=one, engine="calling", ending=Completed())


def hung(limit_s: float, launch: str | None = None, waiting: HungParty = HungParty.HOST, one: Case = GOOD) -> Run:
    return Run(
        case=one, engine="calling", ending=TimedOut(limit_s=limit_s, log_tail="", launch=launch, waiting=waiting)
    )


def after(*seconds: float, most_s: float = MOST_S) -> TimeLimits:
    limits = TimeLimits(most_s)
    for took_s in seconds:
        limits.record(ran(), took_s)
    return limits


def test_the_first_cases_of_an_op_have_the_whole_limit() -> None:
    limits = after(*[1.5] * (FIRST - 1))
    assert limits.of(GOOD, Patience.USUAL) == MOST_S
    limits.record(ran(), 1.5)
    assert limits.of(GOOD, Patience.USUAL) == FACTOR * 1.5
    assert limits.of(case("pid"), Patience.USUAL) == MOST_S
    assert limits.of(replace(GOOD, scale=Scale.OVERSIZED), Patience.USUAL) == MOST_S


def test_the_limit_lies_between_the_floor_and_the_users_limit() -> None:
    assert after(*[0.01] * FIRST).of(GOOD, Patience.USUAL) == FLOOR_S
    assert after(*[30.0] * FIRST).of(GOOD, Patience.USUAL) == MOST_S
    assert after(*[0.01] * FIRST, most_s=2.0).of(GOOD, Patience.USUAL) == 2.0


def test_a_limit_that_does_not_adapt_is_the_users_for_every_case() -> None:
    limits = TimeLimits(MOST_S, adapts=False)
    for _ in range(FIRST):
        limits.record(ran(), 0.01)
    assert limits.of(GOOD, Patience.USUAL) == MOST_S
    assert limits.believes(hung(MOST_S))


def test_one_slow_case_among_many_does_not_count_but_several_do() -> None:
    assert after(*[1.5] * 39, 5.0).of(GOOD, Patience.USUAL) == FACTOR * 1.5
    assert after(*[1.5] * 36, *[5.0] * 4).of(GOOD, Patience.USUAL) == FACTOR * 5.0


def test_long_patience_is_three_times_the_limit() -> None:
    assert after().of(GOOD, Patience.LONG) == 3 * MOST_S
    assert after(*[1.5] * FIRST).of(GOOD, Patience.LONG) == MOST_S
    assert after(*[3.0] * FIRST).of(GOOD, Patience.LONG) == 90.0


def test_a_hurried_case_has_less_than_the_whole_limit() -> None:
    assert after().of(GOOD, Patience.HURRIED) == MOST_S / 4
    assert after(1.5).of(GOOD, Patience.HURRIED) == FACTOR * 1.5
    assert after(most_s=2.0).of(GOOD, Patience.HURRIED) == 2.0


def test_an_unfinished_case_does_not_change_the_limit() -> None:
    limits = after()
    crashed = replace(ran(), ending=Crashed(signal="SIGSEGV", status=None, log_tail=""))
    for _ in range(FIRST):
        limits.record(hung(60.0), 60.0)
        limits.record(crashed, 0.1)
    assert limits.of(GOOD, Patience.USUAL) == MOST_S


def test_a_case_that_ends_past_the_users_limit_has_overtime() -> None:
    limits = TimeLimits(MOST_S)
    assert limits.record(ran(), 59.0) == ran()
    assert limits.record(ran(), 75.0) == replace(ran(), overtime=Overtime(limit_s=MOST_S, took_s=75.0))


def test_time_without_a_core_is_no_overtime() -> None:
    limits = TimeLimits(MOST_S)
    starved = replace(ran(), seconds={STARVED: 20.0})
    assert limits.record(starved, 75.0) == starved
    assert limits.record(starved, 85.0) == replace(starved, overtime=Overtime(limit_s=MOST_S, took_s=65.0))


def test_a_hang_is_believed_after_the_whole_limit_or_a_similar_hang() -> None:
    limits = TimeLimits(MOST_S)
    assert limits.believes(ran())
    assert not limits.believes(hung(10.0))
    assert limits.believes(hung(MOST_S))
    assert limits.believes(hung(10.0))
    assert not limits.believes(hung(10.0, launch="spin_kernel"))
    assert not limits.believes(hung(10.0, waiting=HungParty.DEVICE))
    assert not limits.believes(hung(10.0, one=case("pid")))


def test_more_time_distinguishes_a_slow_case_from_a_hang(scratch: Path) -> None:
    slow = case("takes_three_quarters_of_a_second")
    with Pool(specs(scratch), processes=1, time_limit_s=0.5) as pool:
        assert isinstance(pool.run(slow).ending, TimedOut)
        run = pool.run_alone(slow, patience=Patience.LONG)
    assert run.ending == Completed()
    assert run.overtime is not None
    assert run.overtime.limit_s == 0.5
    assert 0.75 <= run.overtime.took_s <= 1.5


def test_a_pool_confirms_the_first_hang_and_believes_similar_ones(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits_module, "FLOOR_S", 0.3)
    slow, hang = case("takes_three_quarters_of_a_second"), case("hang")
    with Pool(specs(scratch), processes=1, time_limit_s=1.2) as pool:
        for one in (slow, hang):  # as if other cases of these ops had been quick
            for _ in range(FIRST):
                pool._limits.record(ran(one), 0.01)
        assert pool.run(slow).ending == Completed()
        assert limits_of(pool.run(hang), pool.run(hang), pool.run(hang, patience=Patience.HURRIED)) == [1.2, 0.3, 0.3]


def limits_of(*runs: Run) -> list[float]:
    return [run.ending.limit_s for run in runs if isinstance(run.ending, TimedOut)]
