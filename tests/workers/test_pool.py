"""The pool runs many cases at once, loses none and starts no more processes than allowed."""

import os
import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import psutil
import pytest

from harness.errors import WorkerError
from harness.model.case import Case
from harness.model.paired_run import PairedRun, PairedRunRequest, Sketch
from harness.model.run import Completed, Crashed, Ending, OutOfMemory, TimedOut
from harness.workers.live_workers import CHILDREN_PER_PROCESS, LEAST_SERVERS
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import Isolation
from tests.workers.setting import DEADLINE_S, DEVICE, Fifo, case, processes_marked, specs

HANG_LIMIT_S = 1.0


def kind_of(ending: Ending) -> str:
    match ending:
        case Completed():
            return "good"
        case TimedOut():
            return "hang"
        case Crashed(signal=str(name)):
            return name
        case Crashed(status=status):
            return f"status {status}"
        case OutOfMemory():
            return "memory"
        case _:
            return str(ending)


def planted() -> list[tuple[str, Case]]:
    """500 good cases with 50 hangs, 50 crashes and 50 cases out of memory among them, each with what it is."""
    crashes = (("SIGSEGV", case("segfault")), ("SIGKILL", case("killed")), ("status 3", case("leaves", 3)))
    hangs = (("hang", case("hang")), ("hang", case("hang_in_futex")))
    hoards = (("memory", case("allocates_at_once")), ("memory", case("allocates_by_and_by")))
    bad = [one for kind in (crashes, hangs, hoards) for one in islice(cycle(kind), 50)]
    cases = [*bad, *(("good", case("good", rows)) for rows in range(1, 501))]
    random.Random(0).shuffle(cases)  # noqa: S311 — the same order every time
    return cases


@pytest.mark.nightly
@pytest.mark.slow
def test_all_of_650_cases_are_classified_correctly(scratch: Path) -> None:
    cases = planted()
    with Pool(specs(scratch), processes=2, time_limit_s=HANG_LIMIT_S) as pool:
        waiting = [pool.submit(case) for _, case in cases]
        runs = [future.result() for future in waiting]
    assert [run.case for run in runs] == [case for _, case in cases]
    assert [kind_of(run.ending) for run in runs] == [kind for kind, _ in cases]
    good = [run for run in runs if isinstance(run.ending, Completed)]
    assert [run.seconds["result"] for run in good] == [run.case.dims["rows"] ** 2 for run in good]


@pytest.mark.usefixtures("folder")
def test_no_more_cases_run_at_once_than_there_are_processes(scratch: Path) -> None:
    with Pool(specs(scratch), processes=2, time_limit_s=DEADLINE_S) as pool, ThreadPoolExecutor(8) as threads:
        direct = [threads.submit(pool.run, case("counts_company", 100)) for _ in range(20)]
        queued = [pool.submit(case("counts_company", 100)) for _ in range(20)]
        counted = {future.result().seconds["result"] for future in (*direct, *queued)}
    assert counted == {1, 2}


def test_with_a_process_for_each_case_no_two_share_one(scratch: Path) -> None:
    with Pool(
        specs(scratch), processes=1, time_limit_s=DEADLINE_S, options=PoolOptions(isolation=Isolation.CASE)
    ) as pool:
        assert len({pool.run(case("pid", rows)).seconds["result"] for rows in range(1, 6)}) == 5


def test_a_case_alone_runs_in_a_fresh_process(scratch: Path) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=DEADLINE_S) as pool:
        usual = pool.run(case("pid")).seconds["result"]
        alone = pool.run_alone(case("pid")).seconds["result"]
        assert (alone != usual, pool.run(case("pid")).seconds["result"]) == (True, usual)


def test_a_paired_run_returns_as_one_and_its_crash_as_one(scratch: Path) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=DEADLINE_S) as pool:
        run = pool.run(PairedRunRequest(case=case("good", 3), dot_precisions=("ieee",)))
        assert isinstance(run, PairedRun)
        assert (run.case, run.sketches) == (case("good", 3), (Sketch(name="y", shape=(), projections=(9.0,)),))
        killed = pool.run_alone(PairedRunRequest(case=case("killed"), dot_precisions=()), before=[case("good")])
        assert (killed.case, kind_of(killed.ending)) == (case("killed"), "SIGKILL")


def test_cases_before_a_case_alone_run_in_the_same_process(scratch: Path) -> None:
    spec = specs(scratch, memory_limit_bytes=1 << 29)
    with Pool(spec, processes=1, time_limit_s=DEADLINE_S) as pool:
        run = pool.run_alone(case("grows", 100), before=[case("grows", 20), case("good")])
        assert (run.case, run.ending) == (case("grows", 100), Completed())


def test_a_case_alone_survives_the_crash_of_a_case_before_it(scratch: Path) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=DEADLINE_S) as pool:
        run = pool.run_alone(case("good", 4), before=[case("killed")])
        assert (run.case, run.seconds["result"]) == (case("good", 4), 16)


def test_a_worker_that_dies_while_it_is_idle_costs_no_case(scratch: Path) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=DEADLINE_S) as pool:
        for _ in range(10):
            os.kill(int(pool.run(case("pid")).seconds["result"]), signal.SIGKILL)
            assert pool.run(case("good", 2)).ending == Completed()


def test_a_fork_server_that_dies_costs_no_case(scratch: Path) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=DEADLINE_S) as pool:
        for _ in range(3):
            worker = psutil.Process(int(pool.run(case("pid")).seconds["result"]))
            server = worker.parent()
            assert server is not None
            server.kill()
            assert pool.run(case("good", 2)).ending == Completed()


def test_device_servers_share_a_zygote_that_may_die_too(scratch: Path) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=DEADLINE_S) as pool:
        zygotes: list[int] = []
        for sm_count in (1, 2, 3, 4):
            worker = psutil.Process(int(pool.run(case("pid", device=DEVICE.with_sm_count(sm_count))).seconds["result"]))
            server = worker.parent()
            assert server is not None
            zygote = server.parent()
            assert zygote is not None
            zygotes.append(zygote.pid)
            if sm_count == 2:
                zygote.kill()
        assert zygotes[0] == zygotes[1] != zygotes[2] == zygotes[3]


def test_a_case_whose_fork_server_dies_is_run_again(scratch: Path, fifo: Fifo) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=HANG_LIMIT_S * 2) as pool:
        waiting = pool.submit(case("hang_with_grandchild"))
        server = psutil.Process(int(fifo.read())).parent()
        assert server is not None
        server = server.parent()
        assert server is not None
        server.kill()
        fifo.read()
        assert isinstance(waiting.result().ending, TimedOut)


@pytest.mark.nightly
def test_the_least_recently_used_workers_and_servers_are_retired(scratch: Path, mark: str) -> None:
    devices = [DEVICE.with_sm_count(count) for count in range(1, 9)]
    with Pool(specs(scratch), processes=1, time_limit_s=DEADLINE_S) as pool:
        runs = [pool.run(case("pid", device=device)) for device in devices]
        assert len({run.seconds["result"] for run in runs}) == len(devices)
        assert len(processes_marked(mark)) <= CHILDREN_PER_PROCESS + LEAST_SERVERS + 1
        assert pool.run(case("pid", device=devices[-1])).seconds["result"] == runs[-1].seconds["result"]


def test_a_case_runs_in_a_process_that_had_its_variables_at_import(scratch: Path) -> None:
    plain = case("value_of_a_variable", 1)
    levels = [replace(plain, environment=(("MISCHIEF_LEVEL", str(level)),)) for level in (5, 7)]
    with Pool(specs(scratch), processes=1, time_limit_s=DEADLINE_S) as pool:
        waiting = [pool.submit(one) for one in (plain, *levels, plain, levels[0])]
        assert [future.result().seconds["result"] for future in waiting] == [1, 5, 7, 1, 5]
        assert pool.run_alone(levels[1], (levels[1],)).seconds["result"] == 7


def test_a_declared_variable_of_the_shell_reaches_no_case(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISCHIEF_LEVEL", "9")
    with Pool(specs(scratch, unset=("MISCHIEF_LEVEL",)), processes=1, time_limit_s=DEADLINE_S) as pool:
        assert pool.run(case("value_of_a_variable", 1)).seconds["result"] == 1


def test_closing_the_pool_ends_running_cases_and_cancels_queued_ones(scratch: Path, fifo: Fifo) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=600) as pool:
        running = pool.submit(case("hang_with_grandchild"))
        next_one = pool.submit(case("good"))
        waiting = pool.submit(case("good"))
        fifo.read()
    assert isinstance(running.exception(), WorkerError)
    assert isinstance(next_one.exception(), WorkerError)
    assert waiting.cancelled()


def test_closing_the_pool_from_another_thread_ends_a_direct_run(scratch: Path, fifo: Fifo) -> None:
    pool = Pool(specs(scratch), processes=1, time_limit_s=600)

    def close() -> None:
        fifo.read()
        pool.close()

    closing = threading.Thread(target=close)
    closing.start()
    with pytest.raises(WorkerError, match="the pool was closed while the case ran"):
        pool.run(case("hang_with_grandchild"))
    closing.join()


def test_a_closed_pool_takes_no_case(scratch: Path) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=600) as pool:
        pass
    with pytest.raises(WorkerError, match="the pool is closed"):
        pool.run(case("good"))


def test_the_time_for_transport_is_recorded(scratch: Path) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=600) as pool:
        pool.prepare(DEVICE)
        assert 0 < pool.run(case("works", 100)).seconds["transport"] < 1
