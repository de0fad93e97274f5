"""What the pool needs of workers, of the servers that fork them, and of GPUs.

Workers with and without compute-sanitizer are of different classes and behave alike towards the pool.
"""

from collections.abc import Callable
from typing import Protocol

from harness.errors import WorkerError
from harness.model.paired_run import RunRequest
from harness.model.run import Run
from harness.workers.spec import WorkerSpec

Answer = Callable[[], Run]
"""Decodes the run that a worker sent.  Any thread may call it, while the worker runs its next case."""


class WorkerGone(WorkerError):
    """The child was gone before it took the case, or its fork server died: no case is known to be at fault."""


class CaseWorker(Protocol):
    """A child process that runs cases and may die doing it.  One thread uses it; any thread may kill it."""

    @property
    def spec(self) -> WorkerSpec: ...

    @property
    def takes_ahead(self) -> bool:
        """True if the process may be sent its next case while it runs one."""
        ...

    @property
    def is_sound(self) -> bool:
        """True if no answer so far reported anything odd; the process may have died since."""
        ...

    def is_fit(self) -> bool:
        """True if it may take another case: nothing odd has happened in it, and it is alive."""
        ...

    def activity(self) -> str:
        """What the child does now; empty if that is not known.  Any thread may ask."""
        ...

    def ask(self, request: RunRequest, *, time_limit_s: float, following: RunRequest | None = None) -> Answer:
        """Run one case.  A crash, a hang or a lack of memory is the run's ending.

        The worker may be asked for the next case before the answer is decoded.  Where it takes cases ahead, it gets
        `following` before this one is done.  That must be the next request as long as the worker is sound, though it
        may have killed the process by then.

        Raises:
            WorkerGone: the child was gone before it took the case.
            WorkerError: the engine itself failed, or the protocol was broken.
            SuiteError: no suite declares the case's op.
        """
        ...

    def kill(self) -> None:
        """Kill the child; a thread that waits for its answer sees it end."""
        ...

    def close(self) -> None:
        """Kill the child and wait until it is gone."""
        ...


class WorkerServer(Protocol):
    """Makes workers of one spec."""

    def fork(self, number: int) -> CaseWorker:
        """A fresh worker; the number is unique in the pool.

        Raises:
            SuiteError, LibraryError, WorkerError, GpuUnavailable: as `DeviceServer.fork`.
        """
        ...

    def close(self) -> None:
        """Stop the server and its workers."""
        ...


class GpuSource(Protocol):
    """The GPUs on which the pool's processes run cases, each process on one at a time."""

    def take(self, spec: WorkerSpec) -> WorkerSpec:
        """The spec with a GPU of its own.

        Raises:
            GpuUnavailable: no healthy one is left.
        """
        ...

    def give_back(self, spec: WorkerSpec) -> None:
        """Release the GPU of a spec that `take` returned."""
        ...

    def give_up(self, spec: WorkerSpec, reason: str) -> None:
        """Take the GPU of the spec out of use: it is sick."""
        ...
