"""Failures that the original library shares are not the mutant's."""

from dataclasses import replace

import pytest

from harness.model.case import Case
from harness.model.run import Run
from harness.oracles import registry
from studies.mutation import original
from studies.mutation.original import MutantJudge, Original
from tests.search.fakes import OP, SIMPLEST, ImmediateRunner, facts, never

OVERLAPS = (registry.find("write-overlap"),)


def always(case: Case) -> bool:
    del case
    return True


def judge_beside(shows: ImmediateRunner) -> MutantJudge:
    return MutantJudge(oracles=OVERLAPS, original=Original(runner=shows))


def test_a_failure_that_the_original_shares_is_dropped() -> None:
    judge = judge_beside(ImmediateRunner(lambda case: facts(case, always)))
    assert judge.judge(OP, facts(SIMPLEST, always), {}).fails == ()


def test_a_failure_of_the_mutant_alone_is_kept() -> None:
    judge = judge_beside(ImmediateRunner(lambda case: facts(case, never)))
    (fail,) = judge.judge(OP, facts(SIMPLEST, always), {}).fails
    assert fail.oracle == "write-overlap"


def test_the_original_runs_only_if_the_mutant_fails() -> None:
    runner = ImmediateRunner(lambda case: facts(case, never))
    judge = judge_beside(runner)
    judge.judge(OP, facts(SIMPLEST, never), {})
    assert runner.ran == []
    for _ in range(2):
        judge.judge(OP, facts(SIMPLEST, always), {})
    assert runner.ran == [SIMPLEST]


def test_a_run_that_fails_by_itself_gets_no_paired_runs() -> None:
    oracles = (*OVERLAPS, registry.find("config-invariance"))
    judge = MutantJudge(oracles=oracles, original=Original(runner=ImmediateRunner(lambda case: facts(case, never))))
    clean = facts(SIMPLEST, never)
    assert judge.paired_runs(OP, facts(SIMPLEST, always)) == ()
    assert judge.paired_runs(OP, clean) == super(MutantJudge, judge).paired_runs(OP, clean)


@pytest.mark.parametrize(
    ("changed", "alike"),
    [({}, True), ({"build": "b1"}, False), ({"grid": (1, 1, 1)}, False), ({"config": "BT: 64"}, True)],
)
def test_launches_with_the_same_code_and_grid_are_the_same(changed: dict[str, object], alike: bool) -> None:  # noqa: FBT001
    beside = Original(runner=ImmediateRunner(lambda case: facts(case, never)))
    run = facts(SIMPLEST, never)
    assert beside.has_same_launches(_with_launch(run, **changed)) is alike


def test_old_runs_of_the_original_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(original, "MAX_REMEMBERED_RUNS", 2)
    beside = Original(runner=ImmediateRunner(lambda case: facts(case, never)))
    for seed in range(4):
        beside.run(replace(SIMPLEST, seed=seed))
    assert [run.case.seed for run in beside.runs.values()] == [2, 3]


def _with_launch(run: Run, **changed: object) -> Run:
    return replace(run, launches=(replace(run.launches[0], **changed),))
