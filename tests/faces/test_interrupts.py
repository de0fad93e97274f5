"""Ctrl-C counts, also where Python drops its exception."""

import signal

import pytest

from harness.reports.interrupts import Interrupts

pytestmark = pytest.mark.once


def test_an_interrupt_that_python_dropped_is_raised_at_the_next_look() -> None:
    def gc_callback() -> None:  # by the name of Hypothesis's
        signal.raise_signal(signal.SIGINT)

    with Interrupts() as interrupts:
        interrupts.check()
        gc_callback()
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
