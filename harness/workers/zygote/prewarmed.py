"""Processes that are begun before a case needs them, where every case gets one of its own.

To begin takes longer than most cases: on a real GPU, a context.  So while a case runs, the processes of the next ones
begin beside it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from harness.errors import HarnessError
from harness.workers.spec import WorkerSpec

AHEAD = 2
"""Of each spec: one begins while the other waits for its case.  On a GPU, each holds a context."""


class Fresh(Protocol):
    """What is begun ahead."""

    def fit(self) -> bool:
        """Whether it still waits for its case."""
        ...


W = TypeVar("W", bound=Fresh)


class Spares(Generic[W]):
    """The spares of one pool.  Thread-safe."""

    def __init__(self, begin: Callable[[WorkerSpec], W], discard: Callable[[W], None], most: int) -> None:
        """No more than `most` of them are kept, of all specs together."""
        self._begin = begin
        self._discard = discard
        self._most = max(AHEAD, most)
        self._threads = ThreadPoolExecutor(AHEAD, thread_name_prefix="harness-spare")
        self._lock = threading.Lock()
        self._begun: list[tuple[WorkerSpec, Future[W]]] = []
        """Oldest first."""

    def take(self, spec: WorkerSpec) -> W:
        """One that was begun before, or one begun now; and have others begun for the next cases.

        Raises:
            HarnessError: as `begin`.
        """
        begun = self._pop(spec)
        if begun is None:
            found = self._begin(spec)
            self._order(spec)
            return found
        self._order(spec)
        try:
            found = begun.result()
        except HarnessError:  # perhaps for want of memory that the case before held
            return self._begin(spec)
        if found.fit():
            return found
        self._discard(found)
        return self._begin(spec)

    def close(self) -> None:
        """Let go of all of them; `begin` must raise from now on, or make what is discarded."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            begun, self._begun = self._begun, []
        for _, one in begun:
            self._let_go(one)

    def _pop(self, spec: WorkerSpec) -> Future[W] | None:
        with self._lock:
            at = next((at for at, (known, _) in enumerate(self._begun) if known == spec), None)
            return None if at is None else self._begun.pop(at)[1]

    def _order(self, spec: WorkerSpec) -> None:
        with self._lock:
            missing = AHEAD - sum(known == spec for known, _ in self._begun)
            try:
                self._begun += [(spec, self._threads.submit(self._begin, spec)) for _ in range(missing)]
            except RuntimeError:  # the pool was closed
                return
            surplus = [self._begun.pop(0)[1] for _ in range(len(self._begun) - self._most)]
        for one in surplus:
            one.add_done_callback(self._let_go)

    def _let_go(self, begun: Future[W]) -> None:
        if not begun.cancelled() and begun.exception() is None:
            self._discard(begun.result())
