"""This machine as a cluster of one node: it runs one chunk after the other, each in a process of its own."""

import queue
import subprocess  # noqa: TC003 - pyright reads it
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.documents import files
from harness.documents.chunk import Chunk, ShardReport
from harness.errors import HarnessError
from harness.fleet.chunk_process import ENDING_S, ChunkOrder, run_chunk
from harness.fleet.ray_cluster import Done

WAIT_S = 0.2
KILLING_S = 10.0


class ThisMachine:
    """A context manager with the methods of `RayCluster`.  Its chunks end with this process, whatever ends that."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._chunks = queue.SimpleQueue[tuple[Chunk, tuple[str, ...]] | None]()
        self._ended = queue.SimpleQueue[Done]()
        self._events = deque[tuple[str, str]]()
        self._pending = 0
        self._process: subprocess.Popen[str] | None = None
        self._is_cancelled = False
        # The kernel ends a process with the thread that started it: this thread lives as long as the chunks.
        self._thread = threading.Thread(target=self._work, name="chunks", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.cancel()

    def submit(self, chunk: Chunk, options: Sequence[str]) -> None:
        """Run a chunk after those before it.  `options` are options of `harness fuzz` that are no part of the chunk."""
        self._pending += 1
        self._chunks.put((chunk, tuple(options)))

    @property
    def pending(self) -> int:
        """How many chunks have not ended."""
        return self._pending

    def ended(self) -> Iterator[Done]:
        """Yield the chunks that have ended, after waiting a moment for one."""
        try:
            done = self._ended.get(timeout=WAIT_S)
        except queue.Empty:
            return
        self._pending -= 1
        yield done

    def events(self) -> Iterator[tuple[str, str]]:
        """Yield what chunks have told since the last call: the id of the chunk, and a line."""
        while self._events:
            yield self._events.popleft()

    def cancel(self) -> None:
        """End the chunk that runs, so that it reports what it has found, and begin no other."""
        self._is_cancelled = True
        self._chunks.put(None)
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
        self._thread.join(timeout=ENDING_S + KILLING_S)

    def _work(self) -> None:
        while (task := self._chunks.get()) is not None and not self._is_cancelled:
            chunk, options = task
            self._ended.put(self._done(chunk, options))

    def _done(self, chunk: Chunk, options: tuple[str, ...]) -> Done:
        order = ChunkOrder(chunk=files.dumps(chunk), project=str(self._project), options=options)
        try:
            text = run_chunk(order, self._project, lambda line: self._events.append((chunk.id, line)), self._begin)
            (report,) = files.loads(text, ShardReport).chunks or (None,)
        except (HarnessError, OSError, ValueError) as error:
            return Done(chunk=chunk, failure=str(error))
        finally:
            self._process = None
        if report is None:
            return Done(chunk=chunk, failure="it was ended before its first case")
        return Done(chunk=chunk, report=replace(report, chunk=chunk))

    def _begin(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        if self._is_cancelled:
            process.terminate()
