"""A fair semaphore has as many slots as given, and serves threads in order."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from harness.workers.fair_semaphore import FairSemaphore
from tests.workers.setting import DEADLINE_S


class Interrupted(threading.Event):
    """An event that an interrupt comes before."""

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - as it is called
        raise KeyboardInterrupt


@contextmanager
def waiting(turns: FairSemaphore, order: list[int], number: int) -> Generator[None]:
    """Another thread waits for its turn while the block runs, and has had it in the end."""

    def have_a_turn() -> None:
        with turns:
            order.append(number)

    before = len(turns._waiting)
    thread = threading.Thread(target=have_a_turn)
    thread.start()
    while len(turns._waiting) == before:
        pass
    yield
    thread.join(DEADLINE_S)
    assert number in order


def test_a_waiting_thread_comes_before_one_that_has_just_released() -> None:
    turns, order = FairSemaphore(1), list[int]()
    turns.__enter__()
    with waiting(turns, order, 1), waiting(turns, order, 2):
        turns.__exit__(None, None, None)
        with turns:
            order.append(3)
    assert order == [1, 2, 3]


def test_as_many_threads_enter_at_once_as_there_are_slots() -> None:
    turns = FairSemaphore(3)
    with turns, turns, turns, waiting(turns, [], 1):
        turns.__exit__(None, None, None)
        turns.__enter__()


def test_an_interrupt_while_waiting_costs_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = FairSemaphore(1)
    with turns:
        with monkeypatch.context() as patched:
            patched.setattr(threading, "Event", Interrupted)
            with pytest.raises(KeyboardInterrupt):
                turns.__enter__()
        assert not turns._waiting
    with turns:
        pass
