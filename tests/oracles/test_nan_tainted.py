"""A spoiled case is judged by its values where the definition tells them, and by no comparison of two runs."""

from dataclasses import replace

import pytest

from harness.model.case import ProgramOrder, ValueDistribution
from harness.model.verdict import Abstain
from harness.oracles import registry
from tests.oracles.facts import case, run

pytestmark = pytest.mark.once

PLAIN = run(of=replace(case(), seed=0, order=ProgramOrder.FORWARD))
SPOILED = replace(PLAIN, case=replace(PLAIN.case, values=ValueDistribution.SPOILED))


def test_a_spoiled_case_is_compared_with_no_other_run() -> None:
    assert registry.companions(PLAIN)
    assert registry.companions(SPOILED) == ()
    verdicts = registry.judge_all(SPOILED, {}, {})
    silent = {one.oracle for one in verdicts if isinstance(one, Abstain) and one.reason == registry.SPOILED}
    assert silent == registry.COMPARE_RUNS
    assert {oracle.name for oracle in registry.ALL} >= registry.COMPARE_RUNS
