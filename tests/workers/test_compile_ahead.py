"""Two pools in a row: what compiles sees each case first, and whatever befalls it there, the case runs."""

from pathlib import Path

import pytest

from harness.errors import WorkerError
from harness.model.run import Completed, Crashed
from harness.workers.compile_ahead import CompileAhead
from harness.workers.pool import Pool
from tests.workers.setting import DEADLINE_S, Fifo, case, specs

NOTING, NOTICING = "tests.workers.engines:Noting", "tests.workers.engines:Noticing"


def pool(scratch: Path, engine: str = "tests.workers.engines:Calling", processes: int = 1) -> Pool:
    return Pool(specs(scratch, engine=engine), processes=processes, time_limit_s=DEADLINE_S)


def test_every_case_is_compiled_before_it_runs_and_runs_where_cases_run(scratch: Path, folder: Path) -> None:
    said: list[str] = []
    with pool(scratch, NOTICING) as gpus:
        ahead = CompileAhead(gpus, pool(scratch, NOTING, 2), 1, said.append)
        runs = [one.result() for one in [ahead.submit(case("good", rows)) for rows in range(1, 41)]]
        ahead.close()
    assert [(run.case, run.engine, run.seconds["result"]) for run in runs] == [
        (case("good", rows), "noticing", 1.0) for rows in range(1, 41)
    ]
    assert len(list(folder.iterdir())) == 40
    assert said == []


def test_who_waits_for_one_case_does_not_wait_for_a_compiler(scratch: Path, folder: Path) -> None:
    with pool(scratch, NOTICING) as gpus:
        ahead = CompileAhead(gpus, pool(scratch, NOTING), 1, print)
        assert ahead.run(case("good")).seconds["result"] == 0
        assert ahead.run_alone(case("good")).seconds["result"] == 0
        ahead.close()
    assert list(folder.iterdir()) == []


def test_a_case_that_ends_the_process_that_compiles_runs_all_the_same(scratch: Path) -> None:
    said: list[str] = []
    with pool(scratch) as gpus:
        ahead = CompileAhead(gpus, pool(scratch), 1, said.append)
        assert isinstance(ahead.submit(case("segfault")).result().ending, Crashed)
        assert isinstance(ahead.submit(case("good")).result().ending, Completed)
        ahead.close()
    assert said == []


def test_where_nothing_can_be_compiled_ahead_that_is_said_once_and_cases_run(scratch: Path) -> None:
    said: list[str] = []
    with pool(scratch) as gpus:
        ahead = CompileAhead(gpus, pool(scratch, "tests.workers.engines:NoSuchEngine"), 1, said.append)
        runs = [one.result() for one in [ahead.submit(case("good", rows)) for rows in (1, 2, 3)]]
        ahead.close()
    assert [run.seconds["result"] for run in runs] == [1, 4, 9]
    (text,) = said
    assert text.startswith("kernels are not compiled ahead: ")
    assert "\n" not in text


def test_what_goes_wrong_where_cases_run_is_raised(scratch: Path) -> None:
    with pool(scratch, "tests.workers.engines:NoSuchEngine") as gpus:
        ahead = CompileAhead(gpus, pool(scratch), 1, print)
        with pytest.raises(WorkerError):
            ahead.submit(case("good")).result()
        ahead.close()


@pytest.mark.usefixtures("folder")
def test_a_case_that_was_cancelled_meanwhile_does_not_run(scratch: Path, fifo: Fifo) -> None:
    with pool(scratch, NOTICING) as gpus:
        ahead = CompileAhead(gpus, pool(scratch), 1, print)
        held = ahead.submit(case("hang_with_grandchild"))
        fifo.read()  # it is at the compiler
        waiting = [ahead.submit(case("good", rows)) for rows in (1, 2)]
        assert [one.cancel() for one in (held, *waiting)] == [True] * 3
        ahead.close()
        assert gpus.run(case("good", 3)).seconds["result"] == 0


def test_what_was_cancelled_before_the_compiler_had_it_is_not_compiled(scratch: Path, folder: Path) -> None:
    compilers = Pool(specs(scratch, engine=NOTING), processes=1, time_limit_s=DEADLINE_S, follows=False)
    with pool(scratch) as gpus:
        ahead = CompileAhead(gpus, compilers, 1, print)
        first = ahead.submit(case("takes_three_quarters_of_a_second"))
        dropped = [ahead.submit(case("good", rows)) for rows in range(1, 9)]
        assert all(one.cancel() for one in dropped)
        last = ahead.submit(case("good", 9))
        assert [one.result().case.dims["rows"] for one in (first, last)] == [3, 9]
        ahead.close()
    assert len(list(folder.iterdir())) == 2


def test_the_process_that_runs_cases_is_made_ready_while_the_first_is_compiled(scratch: Path, fifo: Fifo) -> None:
    with pool(scratch, "tests.workers.engines:Telling") as gpus:
        ahead = CompileAhead(gpus, pool(scratch), 1, print)
        ahead.submit(case("hang_with_grandchild"))
        told = ""
        while "worn" not in told:  # the case at the compiler tells of itself, too, and does not come back
            told += fifo.read()
        ahead.close()


def test_the_time_in_which_the_gpus_wait_for_the_compiler_is_told(scratch: Path) -> None:
    with pool(scratch) as gpus:
        slow = CompileAhead(gpus, pool(scratch), 1, print)
        assert slow.waiting == 0
        slow.submit(case("takes_three_quarters_of_a_second")).result()  # there, and then here
        assert 0.3 < slow.waiting < 1
        slow.close()


@pytest.mark.usefixtures("folder")
def test_while_all_gpus_are_at_work_nobody_waits(scratch: Path) -> None:
    with pool(scratch) as gpus:
        ahead = CompileAhead(gpus, pool(scratch, NOTING), 1, print)
        ahead.submit(case("good")).result()
        before = ahead.waiting
        cases = [ahead.submit(case("takes_three_quarters_of_a_second", rows)) for rows in (1, 2, 3, 4)]
        for one in cases:
            one.result()
        assert ahead.waiting < before
        ahead.close()
