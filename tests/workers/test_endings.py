"""Whatever a case does to its process becomes the run's ending, and the next case runs as if nothing had been."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.errors import SuiteError, WorkerError
from harness.model.run import Completed, Crashed, OutOfMemory, Raised, Refused, TimedOut
from harness.workers.pool import Pool
from tests.workers.setting import DEADLINE_S, DEVICE, Fifo, case, specs

LIMIT_S = 0.5


@pytest.fixture
def pool(scratch: Path, fifo: Fifo) -> Iterator[Pool]:
    del fifo
    with Pool(specs(scratch), processes=1, time_limit_s=LIMIT_S) as pool:
        yield pool
        assert pool.run(case("good", 7)).seconds["result"] == 49


def test_a_good_case_comes_back_as_the_engine_made_it(pool: Pool) -> None:
    run = pool.run(case("good", 5))
    assert (run.case, run.engine, run.ending, run.seconds["result"]) == (case("good", 5), "calling", Completed(), 25)


def test_one_process_takes_case_after_case(pool: Pool) -> None:
    assert len({pool.run(case("pid", rows)).seconds["result"] for rows in range(1, 6)}) == 1


@pytest.mark.parametrize("op", ["hang", "hang_in_futex"])
def test_a_hang_times_out_and_says_where_it_hung(pool: Pool, op: str) -> None:
    ending = pool.run(case(op)).ending
    assert isinstance(ending, TimedOut)
    assert ending.limit_s == LIMIT_S
    assert f"in {op}" in ending.log_tail


def test_a_segmentation_fault_says_where_it_happened(pool: Pool) -> None:
    ending = pool.run(case("segfault")).ending
    assert isinstance(ending, Crashed)
    assert (ending.signal, ending.status) == ("SIGSEGV", None)
    assert "in segfault" in ending.log_tail


def test_a_kill_from_outside_is_a_crash_by_sigkill(pool: Pool) -> None:
    assert pool.run(case("killed")).ending == Crashed(signal="SIGKILL", status=None, log_tail="")


@pytest.mark.parametrize("op", ["leaves", "exits"])
@pytest.mark.parametrize("status", [0, 3])
def test_leaving_the_process_is_a_crash_with_that_status(pool: Pool, op: str, status: int) -> None:
    assert pool.run(case(op, status)).ending == Crashed(signal=None, status=status, log_tail="")


def test_what_was_printed_before_the_end_is_kept(pool: Pool) -> None:
    ending = pool.run(case("prints_and_leaves", 3)).ending
    assert ending == Crashed(signal=None, status=3, log_tail="the last words\n")


def test_where_much_was_printed_what_is_kept_begins_with_a_whole_line(pool: Pool) -> None:
    ending = pool.run(case("prints_much_and_leaves", 3)).ending
    assert isinstance(ending, Crashed)
    assert len(ending.log_tail) > 8000
    assert set(ending.log_tail.splitlines()) == {"the last words"}


def test_what_an_earlier_case_printed_is_not_blamed_on_a_later_one(pool: Pool) -> None:
    pool.run(case("prints"))
    assert pool.run(case("leaves", 4)).ending == Crashed(signal=None, status=4, log_tail="")


def test_prints_do_not_touch_the_protocol(pool: Pool) -> None:
    assert pool.run(case("prints", 8)).seconds["result"] == 8


def test_an_answer_of_many_megabytes_arrives_whole(pool: Pool) -> None:
    assert pool.run(case("answers_at_length", 4)).ending == Refused(message="x" * (4 << 20))


@pytest.mark.parametrize("op", ["allocates_at_once", "allocates_by_and_by"])
def test_asking_for_more_memory_than_the_limit_is_out_of_memory(scratch: Path, op: str) -> None:
    for engine in ("Calling", "Catching"):
        spec = specs(scratch, engine=f"tests.workers.engines:{engine}")
        with Pool(spec, processes=1, time_limit_s=DEADLINE_S) as pool:
            ending = pool.run(case(op)).ending
            assert isinstance(ending, OutOfMemory)
            assert ending.limit_bytes == 1 << 28


def test_a_worker_that_keeps_much_memory_is_replaced_before_another_case_pays_for_it(pool: Pool) -> None:
    assert [pool.run(case("grows", 100)).ending for _ in range(5)] == [Completed()] * 5


def test_what_an_engine_reports_as_raised_stays_raised(scratch: Path) -> None:
    with Pool(specs(scratch, engine="tests.workers.engines:Catching"), processes=1, time_limit_s=DEADLINE_S) as pool:
        ending = pool.run(case("raises", 9)).ending
        assert isinstance(ending, Raised)
        assert (ending.kind, ending.message) == ("ZeroDivisionError", "a bug of the engine at 9")


def test_a_bug_of_the_engine_is_an_error_with_the_childs_traceback(pool: Pool) -> None:
    with pytest.raises(WorkerError, match=r"(?s)the engine failed on raises rows=9.*in raises.*ZeroDivisionError"):
        pool.run(case("raises", 9))


def test_an_op_that_no_suite_declares_is_named_with_those_that_are(pool: Pool) -> None:
    with pytest.raises(SuiteError, match=r"no suite declares the op '.*:god'; known: .*:good, "):
        pool.run(case("god"))


def test_what_a_hanging_case_started_dies_with_it(pool: Pool, fifo: Fifo) -> None:
    waiting = pool.submit(case("hang_with_grandchild"))
    grandchild = psutil.Process(int(fifo.read()))
    assert isinstance(waiting.result().ending, TimedOut)
    assert psutil.wait_procs([grandchild], timeout=DEADLINE_S)[1] == []


def test_what_a_crashing_case_started_dies_with_it(pool: Pool, fifo: Fifo) -> None:
    ending = pool.run(case("crash_with_grandchild", 6)).ending
    assert ending == Crashed(signal=None, status=6, log_tail="")
    grandchild = int(fifo.read())
    pool.prepare(DEVICE)
    if psutil.pid_exists(grandchild):
        assert psutil.wait_procs([psutil.Process(grandchild)], timeout=DEADLINE_S)[1] == []


def test_a_temporary_file_of_a_case_that_died_is_removed_with_the_pool(pool: Pool, scratch: Path) -> None:
    pool.run(case("forgets_a_file"))
    assert list(scratch.glob("pool-*/tmp/*")) != []
