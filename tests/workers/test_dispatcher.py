"""The queue of submitted cases keeps their order, and gives the next case of the same device ahead."""

from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from harness.errors import WorkerError
from harness.model.paired_run import RunRequest, case_of
from harness.model.run import Completed, Crashed, Run
from harness.workers.dispatcher import Dispatcher, PendingCase
from harness.workers.folder import PoolFolder
from harness.workers.fork_servers.device_server import DeviceServer
from harness.workers.fork_servers.shared_zygotes import SharedZygote
from harness.workers.fork_servers.started_zygote import zygote_for
from harness.workers.interfaces import Answer
from harness.workers.pool import Pool
from harness.workers.worker import Worker
from tests.workers.setting import DEADLINE_S, DEVICE, Fifo, case, specs

OTHER = DEVICE.with_sm_count(1)


def answer_to(request: RunRequest) -> Answer:
    return lambda: Run(case=case_of(request), engine="none", ending=Completed())


def finish(_: PendingCase, answer: Answer) -> Run:
    return answer()


class Running:
    """A dispatcher with one thread, which runs `run` on each case once it may begin."""

    def __init__(self, run: Callable[["Running", PendingCase], None]) -> None:
        self.may_begin = Event()
        self.order: list[int] = []
        self.dispatcher = Dispatcher(1, lambda pending: self._run(pending, run), finish)

    def submit(self, *cases: RunRequest) -> list[Future[Run]]:
        return [self.dispatcher.submit(one) for one in cases]

    def answer(self, pending: PendingCase) -> None:
        self.order.append(case_of(pending.request).dims["rows"])
        self.dispatcher.decode(pending, answer_to(pending.request))

    def close(self) -> None:
        self.dispatcher.cancel()
        self.may_begin.set()
        self.dispatcher.join()

    def _run(self, pending: PendingCase, run: Callable[["Running", PendingCase], None]) -> None:
        self.may_begin.wait(DEADLINE_S)
        run(self, pending)


def test_the_next_case_is_taken_ahead_only_for_the_same_device() -> None:
    ahead: list[tuple[int, int]] = []

    def take_ahead(running: Running, pending: PendingCase) -> None:
        running.answer(pending)
        while (following := running.dispatcher.take_ahead(pending)) is not None:
            ahead.append((case_of(pending.request).dims["rows"], case_of(following.request).dims["rows"]))
            running.answer(following)
            pending = following

    running = Running(take_ahead)
    futures = running.submit(case("good", 1), case("good", 2), case("good", 3, device=OTHER), case("good", 4))
    running.may_begin.set()
    assert [future.result().case.dims["rows"] for future in futures] == [1, 2, 3, 4]
    running.close()
    assert running.order == [1, 2, 3, 4]
    assert ahead == [(1, 2)]


def test_a_case_that_is_put_back_comes_next() -> None:
    refused: list[PendingCase] = []

    def refuse_the_first(running: Running, pending: PendingCase) -> None:
        if not refused:
            refused.append(pending)
            running.dispatcher.put_back(pending)
            return
        running.answer(pending)

    running = Running(refuse_the_first)
    futures = running.submit(case("good", 1), case("good", 2))
    running.may_begin.set()
    assert [future.result().case.dims["rows"] for future in futures] == [1, 2]
    running.close()
    assert running.order == [1, 2]


def test_closing_cancels_queued_cases_and_fails_those_put_back() -> None:
    def put_back(running: Running, pending: PendingCase) -> None:
        running.dispatcher.put_back(pending)

    running = Running(put_back)
    begun, queued = running.submit(case("good", 1), case("good", 2))
    while not begun.running():
        pass
    running.close()
    assert isinstance(begun.exception(), WorkerError)
    assert queued.cancelled()
    with pytest.raises(WorkerError, match="the pool is closed"):
        running.dispatcher.submit(case("good", 3))


def test_an_error_fails_its_case_and_the_thread_goes_on() -> None:
    def fail(running: Running, pending: PendingCase) -> None:
        if case_of(pending.request).dims["rows"] == 1:
            raise MemoryError("none left")
        running.answer(pending)

    running = Running(fail)
    first, second = running.submit(case("good", 1), case("good", 2))
    running.may_begin.set()
    assert isinstance(first.exception(), MemoryError)
    assert second.result().ending == Completed()
    running.close()


def test_a_case_sent_ahead_is_not_blamed_for_the_crash_before_it(scratch: Path) -> None:
    """All are submitted before the first process has started, so each is sent before the last is done."""
    names = ["good", "segfault", "good", "killed", "leaves", "good", "allocates_at_once", "good"]
    with Pool(specs(scratch), processes=1, time_limit_s=DEADLINE_S) as pool:
        runs = [future.result() for future in [pool.submit(case(name)) for name in names]]
    assert [run.case.op.rpartition(":")[2] for run in runs] == names
    ended = [run.ending.signal or run.ending.status for run in runs if isinstance(run.ending, Crashed)]
    assert ended == ["SIGSEGV", "SIGKILL", 3]
    assert [run.ending == Completed() for run in runs] == [name == "good" for name in names]


@contextmanager
def one_worker(scratch: Path) -> Generator[Worker]:
    folder = PoolFolder(str(scratch))
    spec = specs(scratch)(DEVICE)
    zygote = SharedZygote(zygote_for(spec.engine, None))
    server = DeviceServer(spec, zygote, folder, 1)
    worker = server.fork(2)
    yield worker
    worker.close()
    server.close()
    zygote.close()
    folder.remove()


def test_a_worker_begins_the_case_that_was_sent_ahead_by_itself(scratch: Path, fifo: Fifo) -> None:
    with one_worker(scratch) as worker:
        worker.ask(case("good"), time_limit_s=DEADLINE_S, following=case("hang_with_grandchild"))
        fifo.read()


def test_a_case_sent_ahead_that_kills_its_worker_is_a_crash(scratch: Path) -> None:
    crashing = case("segfault")
    with one_worker(scratch) as worker:
        assert worker.ask(case("good"), time_limit_s=DEADLINE_S, following=crashing)().ending == Completed()
        while worker.is_fit():
            pass
        assert worker.is_sound
        ending = worker.ask(crashing, time_limit_s=DEADLINE_S, following=case("good"))().ending
    assert isinstance(ending, Crashed)
    assert ending.signal == "SIGSEGV"
    assert any("segfault" in event for event in ending.events)


def test_a_direct_run_does_not_wait_for_the_whole_queue(scratch: Path) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=DEADLINE_S) as pool:
        pool.prepare(DEVICE)
        futures = [pool.submit(case("works", 100)) for _ in range(300)]
        assert pool.run(case("good", 2)).ending == Completed()
        assert not futures[-1].done()
