"""Protocols: what the search needs from the processes that run cases."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

from harness.model.case import Case
from harness.model.kernel_resources import Resources
from harness.model.paired_run import RunRequest
from harness.model.run import Launch, Run
from harness.workers.supervision.time_limits import Patience

T = TypeVar("T")
R = TypeVar("R")


class Runner(Protocol):
    """Runs cases in processes that may die.  A crash, a hang and a library's exception are runs; none is raised."""

    def submit(self, request: RunRequest, /) -> Future[Run]:
        """Run a case or a paired run as soon as a process is free."""
        ...

    def run(self, request: RunRequest, /, *, patience: Patience = Patience.USUAL) -> Run:
        """Run it in a process that may have run others, and wait."""
        ...

    def run_alone(
        self, request: RunRequest, before: Sequence[Case] = (), /, *, patience: Patience = Patience.USUAL
    ) -> Run:
        """Run it in a fresh process, after the cases `before`, and wait."""
        ...


def mapped(function: Callable[[T], R], arguments: Sequence[T], at_once: int) -> list[R]:
    """Return the results of the function in order, `at_once` computed in threads; in this thread if that is 1."""
    if at_once == 1:
        return [function(argument) for argument in arguments]
    with ThreadPoolExecutor(at_once) as threads:
        return list(threads.map(function, arguments))


class RecordingRunner:
    """A runner that shows each submitted run to a function, before whoever waits for it."""

    def __init__(self, runner: Runner, record: Callable[[Run], None]) -> None:
        self._runner = runner
        self._record = record
        self.run = runner.run
        self.run_alone = runner.run_alone

    def submit(self, request: RunRequest) -> Future[Run]:
        future = self._runner.submit(request)
        future.add_done_callback(self._take)
        return future

    def _take(self, future: Future[Run]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._record(future.result())


class ResourceSource(Protocol):
    """Runs the whole compiler pipeline on kernels.  It works in the background and never delays the search."""

    def of(self, launch: Launch, /) -> Resources | None:
        """Return the resources of this launch's build if they are known.  Otherwise request them and return None."""
        ...

    def settle(self, limit_s: float | None = None, /) -> None:
        """Wait until all requested builds are known, up to the source's own limit and `limit_s`."""
        ...

    def wait_for(self, launches: Iterable[Launch], limit_s: float | None = None, /) -> None:
        """Compile the builds of these launches next, and wait for them, with limits as in `settle`."""
        ...


class NoResources:
    """A source that knows nothing."""

    def of(self, launch: Launch) -> Resources | None:
        del launch

    def settle(self, limit_s: float | None = None) -> None:
        pass

    def wait_for(self, launches: Iterable[Launch], limit_s: float | None = None) -> None:
        pass
