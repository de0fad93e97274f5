"""No Ctrl-C is lost, even if Python drops its exception."""

import signal
from collections import Counter
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from harness.reports.interrupts import Interrupts
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.judge import Judge
from tests.search.fakes import OP, SIMPLEST, unsupported


def interrupting(value: int) -> int:
    signal.raise_signal(signal.SIGINT)
    return value


def test_an_interrupt_inside_hypothesis_is_raised_at_the_next_check() -> None:
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
    """Interrupts its reader."""

    def __repr__(self) -> str:
        signal.raise_signal(signal.SIGINT)
        return "Interrupting()"


def test_an_interrupt_while_hypothesis_prepares_a_test_is_no_error() -> None:
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


def test_any_other_interrupt_is_raised_at_once() -> None:
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


class InterruptingCounter(Counter[str]):
    """Interrupts the process that adds to it."""

    def update(self, *args: Any, **kwargs: Any) -> None:
        if args[0]:  # it is made empty
            signal.raise_signal(signal.SIGINT)
        super().update(*args, **kwargs)


def test_an_interrupt_inside_a_count_waits_until_the_counts_add_up() -> None:
    statistics = CampaignStatistics(reasons=InterruptingCounter())
    examined = Judge().judge(OP, unsupported(SIMPLEST), {})
    with Interrupts() as interrupts:
        statistics.count(examined)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
    assert (statistics.cases, statistics.abstained, len(statistics.reasons)) == (1, 1, 1)
    (counts,) = statistics.ops.values()
    assert counts.outcomes.total() == 1


def test_the_previous_handler_is_restored() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) is before
