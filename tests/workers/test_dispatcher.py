"""The queue of submitted cases: in order, each to one lane, the next of the same device to whoever asks ahead."""

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
from harness.workers.pool import Pool
from harness.workers.worker import Answer, Worker
from harness.workers.zygote.server import Server, SharedZygote
from tests.workers.setting import DEADLINE_S, DEVICE, Fifo, case, specs

OTHER = DEVICE.with_sm_count(1)


def answer_to(wanted: RunRequest) -> Answer:
    return lambda: Run(case=case_of(wanted), engine="none", ending=Completed())


def finish(_: PendingCase, answer: Answer) -> Run:
    return answer()


class Serving:
    """Serves what it is given when it is let, and takes ahead what follows."""

    def __init__(self, served: Callable[["Serving", PendingCase], None]) -> None:
        self.may_begin = Event()
        self.order: list[int] = []
        self.lanes = Dispatcher(1, lambda waiting: self._serve(waiting, served), finish)

    def submit(self, *cases: RunRequest) -> list[Future[Run]]:
        return [self.lanes.submit(one) for one in cases]

    def answer(self, waiting: PendingCase) -> None:
        self.order.append(case_of(waiting.wanted).dims["rows"])
        self.lanes.answered(waiting, answer_to(waiting.wanted))

    def close(self) -> None:
        self.lanes.cancel()
        self.may_begin.set()
        self.lanes.join()

    def _serve(self, waiting: PendingCase, served: Callable[["Serving", PendingCase], None]) -> None:
        self.may_begin.wait(DEADLINE_S)
        served(self, waiting)


def test_whoever_has_a_case_gets_the_next_ahead_if_it_is_for_the_same_device() -> None:
    ahead: list[tuple[int, int]] = []

    def take_ahead(serving: Serving, waiting: PendingCase) -> None:
        serving.answer(waiting)
        while (following := serving.lanes.take_after(waiting)) is not None:
            ahead.append((case_of(waiting.wanted).dims["rows"], case_of(following.wanted).dims["rows"]))
            serving.answer(following)
            waiting = following

    serving = Serving(take_ahead)
    futures = serving.submit(case("good", 1), case("good", 2), case("good", 3, device=OTHER), case("good", 4))
    serving.may_begin.set()
    assert [future.result().case.dims["rows"] for future in futures] == [1, 2, 3, 4]
    serving.close()
    assert serving.order == [1, 2, 3, 4]
    assert ahead == [(1, 2)]


def test_a_case_that_is_put_back_comes_next() -> None:
    refused: list[PendingCase] = []

    def refuse_the_first(serving: Serving, waiting: PendingCase) -> None:
        if not refused:
            refused.append(waiting)
            serving.lanes.put_back(waiting)
            return
        serving.answer(waiting)

    serving = Serving(refuse_the_first)
    futures = serving.submit(case("good", 1), case("good", 2))
    serving.may_begin.set()
    assert [future.result().case.dims["rows"] for future in futures] == [1, 2]
    serving.close()
    assert serving.order == [1, 2]


def test_what_nobody_has_begun_is_cancelled_and_what_was_put_back_fails() -> None:
    def put_back(serving: Serving, waiting: PendingCase) -> None:
        serving.lanes.put_back(waiting)

    serving = Serving(put_back)
    begun, waiting = serving.submit(case("good", 1), case("good", 2))
    while not begun.running():
        pass
    serving.close()
    assert isinstance(begun.exception(), WorkerError)
    assert waiting.cancelled()
    with pytest.raises(WorkerError, match="the pool is closed"):
        serving.lanes.submit(case("good", 3))


def test_an_error_is_told_to_whoever_waits_for_the_case_and_the_lane_goes_on() -> None:
    def fail(serving: Serving, waiting: PendingCase) -> None:
        if case_of(waiting.wanted).dims["rows"] == 1:
            raise MemoryError("none left")
        serving.answer(waiting)

    serving = Serving(fail)
    first, second = serving.submit(case("good", 1), case("good", 2))
    serving.may_begin.set()
    assert isinstance(first.exception(), MemoryError)
    assert second.result().ending == Completed()
    serving.close()


def test_a_case_that_a_worker_had_ahead_is_not_blamed_for_the_end_of_the_one_before(scratch: Path) -> None:
    """All are submitted before the first process is there, so that each is sent before the last is done."""
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
    ground = SharedZygote(spec.ground, folder, 0)
    server = Server(spec, ground, folder, 1)
    worker = server.fork(2)
    yield worker
    worker.close()
    server.close()
    ground.close()
    folder.remove()


def test_a_worker_begins_with_what_it_has_ahead_before_anybody_asks_for_it(scratch: Path, fifo: Fifo) -> None:
    with one_worker(scratch) as worker:
        worker.ask(case("good"), time_limit_s=DEADLINE_S, following=case("hang_with_grandchild"))
        fifo.read()


def test_a_case_that_killed_its_worker_before_anybody_asked_for_it_is_a_crash_all_the_same(scratch: Path) -> None:
    crashing = case("segfault")
    with one_worker(scratch) as worker:
        assert worker.ask(case("good"), time_limit_s=DEADLINE_S, following=crashing)().ending == Completed()
        while worker.fit():
            pass
        assert worker.is_sound
        ending = worker.ask(crashing, time_limit_s=DEADLINE_S, following=case("good"))().ending
    assert isinstance(ending, Crashed)
    assert ending.signal == "SIGSEGV"
    assert any("segfault" in event for event in ending.events)


def test_whoever_waits_for_a_process_gets_it_before_all_that_was_submitted_is_done(scratch: Path) -> None:
    with Pool(specs(scratch), processes=1, time_limit_s=DEADLINE_S) as pool:
        pool.prepare(DEVICE)
        futures = [pool.submit(case("works", 100)) for _ in range(300)]
        assert pool.run(case("good", 2)).ending == Completed()
        assert not futures[-1].done()
