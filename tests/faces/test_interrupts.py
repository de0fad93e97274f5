"""Ctrl-C counts, also where Python drops its exception."""

import signal
from contextlib import suppress

import pytest

from harness.reports.interrupts import Interrupts

pytestmark = pytest.mark.once


def test_an_interrupt_that_python_dropped_is_raised_at_the_next_look() -> None:
    with Interrupts() as interrupts:
        interrupts.check()
        with suppress(KeyboardInterrupt):  # as a callback of the garbage collector does
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_the_handler_that_was_there_before_is_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) is before
