"""The cores that a launch in native code may use, and the memory that launches reuse on each."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from harness.engines.virtual.memory.arguments import Argument
from harness.engines.virtual.native import calling_convention

LARGE_LAUNCH = 1 << 22
"""The fewest elements of a launch's arguments for which threads pay: a launch of tens of milliseconds on one core."""
MOST_SHADOW_BYTES = 1 << 29
"""Address space for the shadow memory of more threads than one."""
T = TypeVar("T")
R = TypeVar("R")


class ReusedMemory:
    """Memory of one thread, which grows to what the largest launch has asked for."""

    def __init__(self) -> None:
        self._words = np.zeros(0, np.int64)

    def address(self, size_bytes: int) -> int:
        """The address of at least `size_bytes` bytes, aligned to 64."""
        if len(self._words) * 8 < size_bytes + 64:
            self._words = np.empty(size_bytes // 8 + 16, np.int64)
        return -(-self._words.ctypes.data // 64) * 64


class NativeScratch:
    """Memory that the launches of one thread reuse, one after the other."""

    def __init__(self) -> None:
        self.records = np.zeros(0, np.int64)
        self.arena = ReusedMemory()
        """For the code of a kernel."""
        self.space = ReusedMemory()
        """For the shadows and copies of a repeated launch."""

    def fresh_records(self) -> int:
        """The address of an emptied table of records."""
        if not len(self.records):
            # np.empty: pages that are never written cost no memory
            self.records = np.empty(calling_convention.RECORD_WORDS, np.int64)
        self.records[0] = 0
        return self.records.ctypes.data


class Cores:
    """The cores of this process."""

    def __init__(self, count: int | None = None, large: int = LARGE_LAUNCH) -> None:
        """By default as many as the process may run on; `large` is the fewest elements of a launch to split."""
        self._count = count or len(os.sched_getaffinity(0))
        self._large = large
        self._scratch: list[NativeScratch] = []

    def parts_of(self, programs: int, arguments: Sequence[Argument]) -> int:
        """Return the number of threads for a launch: one unless it is large."""
        if self._count == 1 or sum(argument.extent for argument in arguments) < self._large:
            return 1
        buffers = {argument.buffer: argument.element_bytes for argument in arguments if argument.buffer}
        cells = sum(buffer.size_bytes // size for buffer, size in buffers.items() if buffer.track_readers)
        return max(1, min(self._count, programs, 1 + MOST_SHADOW_BYTES // max(1, 4 * cells)))

    def scratch(self, count: int) -> list[NativeScratch]:
        """Return memory for as many threads."""
        while len(self._scratch) < count:
            self._scratch.append(NativeScratch())
        return self._scratch[:count]

    def map(self, work: Callable[[T], R], items: Sequence[T]) -> Iterable[R]:
        """Do the work on all items: in this thread if there is one item at most, else on all cores."""
        if len(items) <= 1:
            return [work(item) for item in items]
        # Threads of this call alone: a forked child would wait for ever for those of its parent.
        with ThreadPoolExecutor(min(self._count, len(items)), "launch") as threads:
            return list(threads.map(work, items))
