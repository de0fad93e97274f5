"""A time budget keeps time for triage, and equal plans draw equal cases."""

import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from harness import catalogue
from harness.model.case import Case
from harness.search.launch_feedback import LaunchFeedback
from harness.search.plan import CaseBudget, Plan, TimeBudget, batch_plans
from harness.suite import load_suite
from harness.suite_files import shipped_suites

BUDGET = TimeBudget(seconds=180.0, triage_share=0.5, least_triage_s=60.0)


@pytest.mark.parametrize(("sightings", "cases", "reserve_s"), [(0, 1000, 0.0), (1, 1000, 60.0), (100, 100, 90.0)])
def test_triage_keeps_a_least_time_once_something_was_seen(sightings: int, cases: int, reserve_s: float) -> None:
    assert BUDGET.reserve_s(sightings, cases, 50.0) == reserve_s


def test_copies_of_a_suite_in_other_folders_draw_the_same_cases(tmp_path: Path) -> None:
    original = shipped_suites() / "planted" / "contended_store.py"
    here, there = (drawn_of_copy(original, tmp_path / name) for name in ("here", "there"))
    assert here
    assert here == there


def drawn_of_copy(suite: Path, folder: Path) -> list[Case]:
    folder.mkdir()
    ops = load_suite(str(shutil.copy(suite, folder)))
    plan = Plan(ops=ops, devices=(catalogue.find("b200"),), budget=CaseBudget(cases=8), seed=3)
    batches = [batch_plan.batch(LaunchFeedback()) for batch_plan in islice(batch_plans(plan), 3)]
    return [replace(case, op="") for batch in batches for case in batch.draw()]
