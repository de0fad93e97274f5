"""Where every case gets a process of its own, the next ones begin beside it: none is shared, none is missed."""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from harness.model.run import Completed
from harness.workers.pool import Pool
from harness.workers.spec import Isolation
from harness.workers.zygote.prewarmed import AHEAD
from tests.workers.setting import DEADLINE_S, DEVICE, case, processes_marked, specs


@contextmanager
def pool_of_cases(scratch: Path, processes: int = 1) -> Generator[Pool]:
    with Pool(specs(scratch), processes, time_limit_s=DEADLINE_S, isolation=Isolation.CASE) as pool:
        yield pool


def workers(mark: str) -> set[int]:
    """The processes that a fork server of one device has made: parent, shared fork server, that server, worker."""
    found: set[int] = set()
    for process in processes_marked(mark):
        with suppress(psutil.NoSuchProcess, AttributeError):
            if process.parent().parent().ppid() == os.getpid():  # pyright: ignore[reportOptionalMemberAccess]
                found.add(process.pid)
    return found


def spares(mark: str, wanted: int) -> set[int]:
    deadline = time.monotonic() + DEADLINE_S
    while len(found := workers(mark)) != wanted:
        assert time.monotonic() < deadline, found
    return found


def pid_of(pool: Pool) -> int:
    return int(pool.run(case("pid")).seconds["result"])


def test_a_case_runs_in_a_process_that_began_before_it(scratch: Path, mark: str) -> None:
    with pool_of_cases(scratch) as pool:
        first = pid_of(pool)
        begun = spares(mark, AHEAD)
        assert first not in begun
        assert pid_of(pool) in begun


def test_spares_that_die_cost_no_case(scratch: Path, mark: str) -> None:
    with pool_of_cases(scratch) as pool:
        assert pool.run(case("good")).ending == Completed()
        killed = spares(mark, AHEAD)
        for pid in killed:
            psutil.Process(pid).kill()
        assert killed.isdisjoint(pid_of(pool) for _ in range(AHEAD + 1))
        spares(mark, AHEAD)


def test_of_many_devices_only_the_latest_spares_are_kept(scratch: Path, mark: str) -> None:
    with pool_of_cases(scratch, processes=2) as pool:
        for sm_count in range(1, 6):
            assert pool.run(case("good", device=DEVICE.with_sm_count(sm_count))).ending == Completed()
        assert spares(mark, 2 * AHEAD)


def test_where_a_worker_takes_case_after_case_there_are_no_spares(scratch: Path, mark: str) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=DEADLINE_S) as pool:
        assert workers(mark) == set()
        assert {pid_of(pool), pid_of(pool)} == workers(mark)
