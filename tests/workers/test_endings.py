"""Whatever a case does to its process becomes the run's ending, and the next case runs as usual."""

from collections.abc import Iterator
from pathlib import Path
from time import monotonic

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
def test_a_hang_times_out_with_its_stack(pool: Pool, op: str) -> None:
    ending = pool.run(case(op)).ending
    assert isinstance(ending, TimedOut)
    assert ending.limit_s == LIMIT_S
    assert f"in {op}" in ending.log_tail


def test_a_stopped_process_does_not_outlive_its_limit(pool: Pool) -> None:
    assert isinstance(pool.run(case("stops")).ending, TimedOut)


def test_time_without_a_core_does_not_count(scratch: Path) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=3 * LIMIT_S) as pool:
        pool.run(case("good"))
        begun = monotonic()
        ending = pool.run(case("hang_without_a_core")).ending
    assert isinstance(ending, TimedOut)
    assert monotonic() - begun > 3 * (3 * LIMIT_S)


def test_a_segmentation_fault_is_a_crash_with_its_stack(pool: Pool) -> None:
    ending = pool.run(case("segfault")).ending
    assert isinstance(ending, Crashed)
    assert (ending.signal, ending.status) == ("SIGSEGV", None)
    assert "in segfault" in ending.log_tail


def test_a_kill_from_outside_is_a_crash_by_sigkill(pool: Pool) -> None:
    assert pool.run(case("killed")).ending == Crashed(signal="SIGKILL", status=None, log_tail="")


@pytest.mark.parametrize("op", ["leaves", "exits"])
@pytest.mark.parametrize("status", [0, 3])
def test_exiting_is_a_crash_with_that_status(pool: Pool, op: str, status: int) -> None:
    assert pool.run(case(op, status)).ending == Crashed(signal=None, status=status, log_tail="")


def test_output_before_the_end_is_kept(pool: Pool) -> None:
    ending = pool.run(case("prints_and_leaves", 3)).ending
    assert ending == Crashed(signal=None, status=3, log_tail="the last words\n")


def test_the_end_of_a_long_output_starts_with_a_whole_line(pool: Pool) -> None:
    ending = pool.run(case("prints_much_and_leaves", 3)).ending
    assert isinstance(ending, Crashed)
    assert len(ending.log_tail) > 8000
    assert set(ending.log_tail.splitlines()) == {"the last words"}


def test_output_of_an_earlier_case_is_forgotten(pool: Pool) -> None:
    pool.run(case("prints"))
    assert pool.run(case("leaves", 4)).ending == Crashed(signal=None, status=4, log_tail="")


def test_output_does_not_touch_the_protocol(pool: Pool) -> None:
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


def test_a_worker_that_keeps_much_memory_is_replaced(pool: Pool) -> None:
    assert [pool.run(case("grows", 100)).ending for _ in range(5)] == [Completed()] * 5


def test_an_exception_that_the_engine_reports_stays_one(scratch: Path) -> None:
    with Pool(specs(scratch, engine="tests.workers.engines:Catching"), processes=1, time_limit_s=DEADLINE_S) as pool:
        ending = pool.run(case("raises", 9)).ending
        assert isinstance(ending, Raised)
        assert (ending.kind, ending.message) == ("ZeroDivisionError", "a bug of the engine at 9")


def test_a_bug_of_the_engine_is_an_error_with_the_childs_traceback(pool: Pool) -> None:
    with pytest.raises(WorkerError, match=r"(?s)the engine failed on raises rows=9.*in raises.*ZeroDivisionError"):
        pool.run(case("raises", 9))


def test_the_error_for_an_unknown_op_names_the_known_ones(pool: Pool) -> None:
    with pytest.raises(SuiteError, match=r"no suite declares the op '.*:god'; known: .*:good, "):
        pool.run(case("god"))


def test_processes_of_a_hanging_case_die_with_it(pool: Pool, fifo: Fifo) -> None:
    waiting = pool.submit(case("hang_with_grandchild"))
    grandchild = psutil.Process(int(fifo.read()))
    assert isinstance(waiting.result().ending, TimedOut)
    assert psutil.wait_procs([grandchild], timeout=DEADLINE_S)[1] == []


def test_processes_of_a_crashing_case_die_with_it(pool: Pool, fifo: Fifo) -> None:
    ending = pool.run(case("crash_with_grandchild", 6)).ending
    assert ending == Crashed(signal=None, status=6, log_tail="")
    grandchild = int(fifo.read())
    pool.prepare(DEVICE)
    if psutil.pid_exists(grandchild):
        assert psutil.wait_procs([psutil.Process(grandchild)], timeout=DEADLINE_S)[1] == []


def test_temporary_files_of_a_dead_case_are_removed_with_the_pool(pool: Pool, scratch: Path) -> None:
    pool.run(case("forgets_a_file"))
    assert list(scratch.glob("pool-*/tmp/*")) != []
