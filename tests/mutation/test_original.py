"""The unmutated library beside a mutant: failures that both show are not the mutant's."""

from dataclasses import replace

import pytest

from harness.model.case import Case
from harness.model.run import Run
from harness.mutation import original
from harness.mutation.original import MutantJudge, Original
from harness.oracles import registry
from tests.search.fakes import OP, PLAINEST, AtOnce, facts, never

pytestmark = pytest.mark.once

OVERLAPS = (registry.find("write-overlap"),)


def always(case: Case) -> bool:
    del case
    return True


def judge_beside(shows: AtOnce) -> MutantJudge:
    return MutantJudge(oracles=OVERLAPS, original=Original(runner=shows))


def test_a_failure_that_the_original_shows_in_the_same_case_is_none_of_the_mutants() -> None:
    judge = judge_beside(AtOnce(lambda case: facts(case, always)))
    assert judge.judge(OP, facts(PLAINEST, always), {}).fails == ()


def test_a_failure_of_the_mutant_alone_is_kept() -> None:
    judge = judge_beside(AtOnce(lambda case: facts(case, never)))
    (fail,) = judge.judge(OP, facts(PLAINEST, always), {}).fails
    assert fail.oracle == "write-overlap"


def test_the_original_is_asked_only_where_the_mutant_fails_and_once_a_case() -> None:
    runner = AtOnce(lambda case: facts(case, never))
    judge = judge_beside(runner)
    judge.judge(OP, facts(PLAINEST, never), {})
    assert runner.ran == []
    for _ in range(2):
        judge.judge(OP, facts(PLAINEST, always), {})
    assert runner.ran == [PLAINEST]


def test_a_run_that_fails_by_itself_needs_no_companions() -> None:
    oracles = (*OVERLAPS, registry.find("config-invariance"))
    judge = MutantJudge(oracles=oracles, original=Original(runner=AtOnce(lambda case: facts(case, never))))
    clean = facts(PLAINEST, never)
    assert judge.companions(OP, facts(PLAINEST, always)) == ()
    assert judge.companions(OP, clean) == super(MutantJudge, judge).companions(OP, clean)


@pytest.mark.parametrize(
    ("changed", "alike"),
    [({}, True), ({"build": "b1"}, False), ({"grid": (1, 1, 1)}, False), ({"config": "BT: 64"}, True)],
)
def test_launches_are_alike_that_have_the_same_code_and_grid(changed: dict[str, object], alike: bool) -> None:  # noqa: FBT001
    beside = Original(runner=AtOnce(lambda case: facts(case, never)))
    run = facts(PLAINEST, never)
    assert beside.launches_alike(_with_launch(run, **changed)) is alike


def test_old_runs_of_the_original_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(original, "REMEMBERED", 2)
    beside = Original(runner=AtOnce(lambda case: facts(case, never)))
    for seed in range(4):
        beside.run(replace(PLAINEST, seed=seed))
    assert [run.case.seed for run in beside.runs.values()] == [2, 3]


def _with_launch(run: Run, **changed: object) -> Run:
    return replace(run, launches=(replace(run.launches[0], **changed),))
