"""Turns: no more at once than there are, and nobody overtaken."""

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


def test_whoever_came_first_has_the_next_turn_also_before_one_who_has_just_had_it() -> None:
    turns, order = FairSemaphore(1), list[int]()
    turns.__enter__()
    with waiting(turns, order, 1), waiting(turns, order, 2):
        turns.__exit__(None, None, None)
        with turns:
            order.append(3)
    assert order == [1, 2, 3]


def test_as_many_as_there_are_have_their_turns_at_once() -> None:
    turns = FairSemaphore(3)
    with turns, turns, turns, waiting(turns, [], 1):
        turns.__exit__(None, None, None)
        turns.__enter__()


def test_an_interrupt_while_waiting_costs_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = FairSemaphore(1)
    with turns:
        with monkeypatch.context() as patched:
            patched.setattr(threading, "Event", Interrupted)
            with pytest.raises(KeyboardInterrupt):
                turns.__enter__()
        assert not turns._waiting
    with turns:
        pass
