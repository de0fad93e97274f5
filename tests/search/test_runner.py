"""Repeats of a case may run at once, and stay in order."""

from threading import Barrier, current_thread

from harness.search.runner import mapped
from tests.workers.setting import DEADLINE_S


def test_results_computed_at_once_stay_in_order() -> None:
    meeting = Barrier(3)

    def meet(number: int) -> int:
        meeting.wait(DEADLINE_S)
        return number

    assert mapped(meet, range(6), 3) == list(range(6))


def test_one_at_a_time_needs_no_other_thread() -> None:
    assert mapped(lambda _: current_thread(), [None], 1) == [current_thread()]
