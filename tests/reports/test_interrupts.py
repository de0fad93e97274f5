"""Ctrl-C counts, also where Python drops its exception."""

import signal

import hypothesis
import pytest
from hypothesis import strategies as st

from harness.reports.interrupts import Interrupts

pytestmark = pytest.mark.once


def interrupting(value: int) -> int:
    signal.raise_signal(signal.SIGINT)
    return value


def test_an_interrupt_inside_hypothesis_is_raised_at_the_next_look() -> None:
    drawn: list[int] = []

    @hypothesis.settings(max_examples=3, database=None, phases=(hypothesis.Phase.generate,))
    @hypothesis.given(st.integers().map(interrupting))
    def draw(value: int) -> None:
        drawn.append(value)

    with Interrupts() as interrupts:
        interrupts.check()
        draw()
        assert drawn
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


class Interrupting:
    """Interrupts whoever wants to read it."""

    def __repr__(self) -> str:
        signal.raise_signal(signal.SIGINT)
        return "Interrupting()"


def test_an_interrupt_while_hypothesis_prepares_a_test_is_no_error_of_its_own() -> None:
    drawn: list[int] = []

    def body(value: int) -> None:
        drawn.append(value)

    body.__annotations__["value"] = Interrupting()  # what a test's signature reads like enters its digest
    draw = hypothesis.given(value=st.integers())(body)
    draw = hypothesis.settings(max_examples=3, database=None, phases=(hypothesis.Phase.generate,))(draw)
    with Interrupts() as interrupts:
        draw()
        assert drawn
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_an_interrupt_is_raised_where_it_comes() -> None:
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_the_handler_that_was_there_before_is_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) is before
