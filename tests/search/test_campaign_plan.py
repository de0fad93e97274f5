"""A time budget keeps time for triage, and equal plans draw equal cases."""

import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from harness import catalogue
from harness.model.case import Case
from harness.model.op import Op
from harness.search.campaign_plan import CampaignPlan, CaseBudget, TimeBudget, batch_plans
from harness.search.launch_feedback import LaunchFeedback
from harness.search.options import load_ops
from harness.suite import load_suite
from harness.suite_files import named_suites, project_of, shipped_suites

BUDGET = TimeBudget(seconds=180.0, triage_share=0.5, least_triage_s=60.0)


@pytest.mark.parametrize(("sightings", "cases", "reserve_s"), [(0, 1000, 0.0), (1, 1000, 60.0), (100, 100, 90.0)])
def test_triage_keeps_a_least_time_once_something_was_seen(sightings: int, cases: int, reserve_s: float) -> None:
    assert BUDGET.reserve_s(sightings, cases, 50.0) == reserve_s


def test_copies_of_a_suite_in_other_folders_draw_the_same_cases(tmp_path: Path) -> None:
    original = shipped_suites() / "planted" / "contended_store.py"
    here, there = (drawn_of_copy(original, tmp_path / name) for name in ("here", "there"))
    assert here
    assert here == there


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("mine", "suites/own.py"),
        ("mine", "./suites/../suites/own.py"),
        ("mine", "suites"),
        ("mine/suites", "own.py"),
        (".", "mine/suites/own.py"),
        ("other", "../mine/suites/own.py"),
        ("other", "{whole}/mine/suites/own.py"),
    ],
)
def test_a_suite_draws_the_same_cases_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, name: str
) -> None:
    (tmp_path / "mine" / "suites").mkdir(parents=True)
    suite = Path(shutil.copy(shipped_suites() / "planted" / "contended_store.py", tmp_path / "mine/suites/own.py"))
    for project in ("mine", "other"):
        (tmp_path / project).mkdir(exist_ok=True)
        (tmp_path / project / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path / "mine")
    usual = drawn_of("suites/own.py")
    assert usual == drawn_of_copy(suite, tmp_path / "elsewhere")
    renamed = Path(shutil.copy(suite, tmp_path / "renamed.py"))
    assert usual != drawn_of_copy(renamed, tmp_path / "another")
    monkeypatch.chdir(tmp_path / folder)
    assert drawn_of(name.format(whole=tmp_path)) == usual


@pytest.mark.parametrize("name", ["planted:contended_store", str(shipped_suites() / "planted" / "contended_store.py")])
def test_a_shipped_suite_draws_the_cases_that_it_draws_in_its_own_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    elsewhere = drawn_of(name)
    monkeypatch.chdir(shipped_suites().parent)
    assert elsewhere == drawn_of("suites/planted/contended_store.py")


@pytest.mark.parametrize(("name", "seed"), [("fla:norm", 2000572886), ("suites/zoo/atomics.py", 2391460823)])
def test_the_first_batch_of_a_seed_stays(monkeypatch: pytest.MonkeyPatch, name: str, seed: int) -> None:
    monkeypatch.chdir(shipped_suites().parent)
    ops = load_ops(named_suites([name]), (), project_of(Path.cwd()))
    plan = CampaignPlan(ops=ops, devices=(catalogue.find("h200"),), budget=CaseBudget(cases=8), seed=0)
    assert next(batch_plans(plan)).seed == seed


def drawn_of(name: str) -> list[Case]:
    """Return the first cases of a suite that a command names in the working folder."""
    return drawn(load_ops(named_suites([name]), (), project_of(Path.cwd())))


def drawn_of_copy(suite: Path, folder: Path) -> list[Case]:
    folder.mkdir()
    return drawn(load_suite(str(shutil.copy(suite, folder))))


def drawn(ops: tuple[Op, ...]) -> list[Case]:
    plan = CampaignPlan(ops=ops, devices=(catalogue.find("b200"),), budget=CaseBudget(cases=8), seed=3)
    batches = [batch_plan.batch(LaunchFeedback()) for batch_plan in islice(batch_plans(plan), 3)]
    return [replace(case, op="") for batch in batches for case in batch.draw()]
