"""Where every case has a process of its own, the processes of the next cases start in advance."""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from harness.model.run import Completed
from harness.workers.pool import Pool, PoolOptions
from harness.workers.prewarmed import AHEAD
from harness.workers.spec import Isolation
from tests.workers.setting import DEADLINE_S, DEVICE, case, processes_marked, specs


@contextmanager
def pool_of_cases(scratch: Path, processes: int = 1) -> Generator[Pool]:
    with Pool(
        specs(scratch), processes, time_limit_s=DEADLINE_S, options=PoolOptions(isolation=Isolation.CASE)
    ) as pool:
        yield pool


def workers(mark: str) -> set[int]:
    """The processes forked by a device server, which the shared zygote forked, which this process started."""
    found: set[int] = set()
    for process in processes_marked(mark):
        with suppress(psutil.NoSuchProcess, AttributeError):
            if process.parent().parent().ppid() == os.getpid():  # pyright: ignore[reportOptionalMemberAccess]
                found.add(process.pid)
    return found


def prewarmed(mark: str, expected: int) -> set[int]:
    deadline = time.monotonic() + DEADLINE_S
    while len(found := workers(mark)) != expected:
        assert time.monotonic() < deadline, found
    return found


def pid_of(pool: Pool) -> int:
    return int(pool.run(case("pid")).seconds["result"])


def test_a_case_runs_in_a_process_started_before_it(scratch: Path, mark: str) -> None:
    with pool_of_cases(scratch) as pool:
        first = pid_of(pool)
        begun = prewarmed(mark, AHEAD)
        assert first not in begun
        assert pid_of(pool) in begun


def test_prewarmed_workers_that_die_cost_no_case(scratch: Path, mark: str) -> None:
    with pool_of_cases(scratch) as pool:
        assert pool.run(case("good")).ending == Completed()
        killed = prewarmed(mark, AHEAD)
        for pid in killed:
            psutil.Process(pid).kill()
        assert killed.isdisjoint(pid_of(pool) for _ in range(AHEAD + 1))
        prewarmed(mark, AHEAD)


@pytest.mark.nightly
def test_only_the_latest_prewarmed_workers_of_many_devices_are_kept(scratch: Path, mark: str) -> None:
    with pool_of_cases(scratch, processes=2) as pool:
        for sm_count in range(1, 6):
            assert pool.run(case("good", device=DEVICE.with_sm_count(sm_count))).ending == Completed()
        assert prewarmed(mark, 2 * AHEAD)


def test_workers_that_take_many_cases_are_not_prewarmed(scratch: Path, mark: str) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=DEADLINE_S) as pool:
        assert workers(mark) == set()
        assert {pid_of(pool), pid_of(pool)} == workers(mark)
