"""Variants are queued for about a second: new cases do not wait behind them for longer."""

from dataclasses import replace

import pytest

from harness.search.variant_pace import VALUE_VARIANTS_PER_PROCESS, VariantPace
from harness.workers.dispatcher import KEEP_BUSY
from tests.search.fakes import SIMPLEST, clean


@pytest.mark.parametrize(
    ("case_s", "each"), [(0.0, VALUE_VARIANTS_PER_PROCESS), (0.05, 20), (0.25, KEEP_BUSY), (9.0, KEEP_BUSY)]
)
def test_variants_that_run_within_a_second_are_queued(case_s: float, each: int) -> None:
    pace = VariantPace(4)
    pace.note(replace(clean(SIMPLEST), seconds={"reference": case_s / 2, "host": case_s / 2}))
    assert pace.at_once == 4 * each


def test_few_variants_are_queued_until_one_has_run() -> None:
    assert VariantPace(2).at_once == 2 * KEEP_BUSY


def test_the_pace_follows_later_variants() -> None:
    pace = VariantPace(1)
    for seconds in (0.05, *[0.25] * 40):
        pace.note(replace(clean(SIMPLEST), seconds={"host": seconds}))
    assert pace.at_once == KEEP_BUSY
