"""Deadlocks have a message and a verdict of the oracle that judges endings."""

from dataclasses import replace

import pytest

from harness.model.run import Deadlocked, Residency, Wait
from harness.oracles.completes import Completes
from harness.oracles.deadlock_messages import sentence
from tests.oracles.facts import KERNEL, LINE_431, deadlocked, only_failure, run, signature

WAITS = f"{KERNEL} deadlocks: all 188 resident programs wait for counter[0] (layernorm.py:431)"


@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        (
            deadlocked(),
            f"{WAITS}, 412 have not started; it needs 600 programs resident: deadlocks below 600 SMs at 1 program an "
            "SM, as here with 188 SMs",
        ),
        (
            deadlocked(limit=600, programs_per_sm=3),
            f"{KERNEL} deadlocks: all 564 resident programs wait for counter[0] (layernorm.py:431), 36 have not "
            "started; it needs 600 programs resident: deadlocks below 200 SMs at 3 programs an SM, as here with 188 "
            "SMs",
        ),
        (
            deadlocked(Residency.AT_MOST, 1, programs=188),
            f"{WAITS}; it ends with at most 1 resident: deadlocks from 2 SMs up at 1 program an SM, as here with 188 "
            "SMs",
        ),
        (
            deadlocked(Residency.NONE, 0, programs=188),
            f"{WAITS}; nothing changes that, however many programs are resident",
        ),
        (
            deadlocked(Residency.UNKNOWN, 0),
            f"{WAITS}, 412 have not started; with how many SMs it would end is not known, at 1 program an SM, as here "
            "with 188 SMs",
        ),
        (
            deadlocked(Residency.NONE, 0, programs=1),
            f"{KERNEL} deadlocks: the only program waits for counter[0] (layernorm.py:431); nothing changes that, "
            "however many programs are resident",
        ),
    ],
)
def test_the_message_names_programs_cells_and_sm_counts(ending: Deadlocked, expected: str) -> None:
    assert sentence(ending) == expected


def test_programs_that_wait_for_different_cells_are_listed_separately() -> None:
    def wait(cell: int, programs: int, *first: int, cells: int = 1) -> Wait:
        return Wait(
            argument="flags", index=(cell,), cells=cells, source=LINE_431, programs=programs, first_programs=first
        )

    ending = replace(
        deadlocked(Residency.NONE, 0, programs=188),
        waits=(wait(7, 9, 1, 2, 3, 4), wait(0, 2, 8, 9, cells=32), wait(1, 1, 5)),
    )
    assert sentence(ending) == (
        f"{KERNEL} deadlocks: all 188 resident programs wait, programs 1, 2, 3, 4, … for flags[7] (layernorm.py:431), "
        "programs 8, 9 for flags[0] and 31 more (layernorm.py:431), program 5 for flags[1] (layernorm.py:431), "
        "176 more for other cells; nothing changes that, however many programs are resident"
    )


def test_programs_that_read_nothing_run_in_circles() -> None:
    ending = replace(deadlocked(Residency.NONE, 0, programs=188), waits=())
    assert sentence(ending) == (
        f"{KERNEL} deadlocks: all 188 resident programs run in circles without reading any memory; nothing changes "
        "that, however many programs are resident"
    )


def test_a_deadlock_is_an_error_at_the_line_that_polls() -> None:
    fail = only_failure(Completes(), run(ending=deadlocked()))
    assert fail.signature == signature("completes", "deadlock (layernorm.py:431)")
    assert fail.source == LINE_431
    assert "hangs on every GPU that holds fewer" in fail.meaning
