"""A case may run in a forked or spawned child of its worker, which may die doing it."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.model.case import CallContext
from harness.model.paired_run import PairedRun, PairedRunRequest
from harness.model.run import Completed, Crashed, Refused, Unsupported
from harness.workers.pool import Pool
from tests.workers.setting import DEADLINE_S, MISCHIEF, case, specs

IN_WORKER, IN_CHILD, LOADED_HERE = 3, 4, 100
"""The worker is a child of the device's server, which is a child of the shared zygote."""


@pytest.fixture
def pool(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    monkeypatch.setenv("MISCHIEF_TEST", str(os.getpid()))
    with Pool(specs(scratch), processes=1, time_limit_s=DEADLINE_S) as pool:
        yield pool


def test_a_forked_child_has_what_its_parent_loaded(pool: Pool) -> None:
    plain = case("age")
    forked = replace(plain, context=CallContext.FORKED)
    assert [pool.run(one).seconds["result"] for one in (plain, forked, plain)] == [IN_WORKER, IN_CHILD, IN_WORKER]
    paired = pool.run(PairedRunRequest(case=forked, dot_precisions=()))
    assert isinstance(paired, PairedRun)
    assert paired.sketches[0].projections == (IN_CHILD,)


def test_a_spawned_child_loads_everything_again(pool: Pool) -> None:
    spawned = replace(case("age"), context=CallContext.SPAWNED)
    assert pool.run(spawned).seconds["result"] == IN_CHILD + LOADED_HERE


COUNTING = """
from pathlib import Path

from harness.suite import op, tokens

with Path(LOADS).open("a") as file:
    print("loaded", file=file)

@op(dims={"rows": tokens()}, inputs={})
def counting(rows):
    return rows

@counting.reference
def _():
    pass
"""


def test_a_spawned_child_loads_no_suite_but_its_own(scratch: Path, tmp_path: Path) -> None:
    loads, other = tmp_path / "loads.txt", tmp_path / "other.py"
    other.write_text(COUNTING.replace("LOADS", repr(str(loads))), encoding="utf-8")
    with Pool(specs(scratch, suites=(str(other), MISCHIEF)), processes=1, time_limit_s=DEADLINE_S) as pool:
        assert pool.run(replace(case("good"), context=CallContext.SPAWNED)).ending == Completed()
    assert loads.read_text(encoding="utf-8") == "loaded\n"


@pytest.mark.parametrize("context", [CallContext.FORKED, CallContext.SPAWNED])
def test_a_child_may_answer_more_than_a_pipe_holds(pool: Pool, context: CallContext) -> None:
    answered = pool.run(replace(case("answers_at_length", rows=1), context=context)).ending
    assert isinstance(answered, Refused)
    assert len(answered.message) == 1 << 20


@pytest.mark.parametrize("context", [CallContext.FORKED, CallContext.SPAWNED])
def test_the_worker_outlives_a_child_that_dies(pool: Pool, context: CallContext) -> None:
    pid = pool.run(case("pid")).seconds["result"]
    died = pool.run(replace(case("segfault"), context=context))
    assert isinstance(died.ending, Crashed)
    assert (died.ending.signal, died.ending.status) == ("SIGSEGV", None)
    assert pool.run(case("pid")).seconds["result"] == pid


@pytest.mark.parametrize("context", [CallContext.FORKED, CallContext.SPAWNED])
def test_a_child_that_aborts_after_its_answer_has_completed(pool: Pool, context: CallContext) -> None:
    assert pool.run(replace(case("aborts_at_exit"), context=context)).ending == Completed()


def test_cuda_is_not_used_in_a_forked_child(scratch: Path) -> None:
    with Pool(specs(scratch, engine="tests.workers.engines:OnHardware"), processes=1, time_limit_s=DEADLINE_S) as pool:
        refused = pool.run(replace(case("good"), context=CallContext.FORKED)).ending
        assert isinstance(refused, Unsupported)
        assert "a forked child of a process that uses CUDA" in refused.what
        assert isinstance(pool.run(case("good")).ending, Completed)
