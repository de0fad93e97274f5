"""Threads that poll: a loop that comes back to its state while nothing changes memory.

The state of a cluster is that of its threads, of their registers, and of shared memory.  A cluster that has come back
to it, while global memory stayed as it is, does so for ever, unless a CTA that has not started changes memory.
"""

from dataclasses import dataclass

import numpy as np

from harness.engines.ptx.memories import GlobalWatch, MemoryRegion, RegionPart
from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.threads import Array
from harness.engines.ptx.wave import Wave

FIRST_INTERVAL = 64
"""The steps between two states that are kept; they double, so a loop of any length is seen."""
RUNNING, WAITING, ENDED = 0, 1, 2
"""The states of a thread."""


@dataclass(frozen=True, slots=True, eq=False)
class Polled:
    """Programs read elements of global memory again and again."""

    instruction: PtxInstruction
    region: MemoryRegion
    places: Array
    """As columns, the linear id of a program and a byte offset in the region."""


@dataclass(slots=True, eq=False)
class ThreadStates:
    """Where each thread of a wave stands."""

    at: Array
    """The number of its block."""
    state: Array
    ran: Array
    """The step at which it ran last."""

    @classmethod
    def of(cls, size: int) -> "ThreadStates":
        return cls(np.zeros(size, np.int32), np.zeros(size, np.int8), np.zeros(size, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """The state of a wave at some step."""

    step: int
    version: tuple[int, ...]
    at: Array
    state: Array
    files: tuple[Array, ...]
    shared: Array
    local: Array


class PollWatch:
    """Watches one wave for clusters that poll."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._each = wave.shape.threads * wave.shape.cluster
        self._silent = wave.memories.on_global
        self._recorder = _Recorder(self._silent)
        self._interval = self._next = FIRST_INTERVAL
        self._kept: _Kept | None = None
        self._repeated = np.zeros(wave.size // self._each, np.bool_)
        self.version: tuple[int, ...] = ()
        """What memory was when all clusters polled."""

    def polls(self, threads: ThreadStates, step: int) -> bool:
        """Return True once every cluster that has not ended has come back to a state twice.

        The second time, what it reads in between is recorded.
        """
        kept, version = self._kept, self._version()
        if kept is None or kept.version != version:
            self._kept, self._wave.memories.on_global = None, self._silent
            if step >= self._next:
                self._keep(threads, step, version)
            return False
        if step >= self._next:
            self._interval *= 2
            self._keep(threads, step, version)
            return False
        self._compare(kept, threads)
        ended = (threads.state == ENDED).reshape(-1, self._each).all(axis=1)
        if not (self._repeated | ended).all():
            return False
        if self._wave.memories.on_global is self._recorder:
            self.version = version
            return True
        self._wave.memories.on_global = self._recorder
        self._keep(threads, step, version)
        return False

    @property
    def polled(self) -> tuple[Polled, ...]:
        """Return what the wave read while it came back to its state."""
        return self._recorder.polled()

    def _version(self) -> tuple[int, ...]:
        wave = self._wave
        phases = sum(item.phase for item in wave.barriers.objects.values())
        return wave.memories.global_memory.changes, len(wave.asynchronous.bulk), phases

    def _keep(self, threads: ThreadStates, step: int, version: tuple[int, ...]) -> None:
        wave = self._wave
        self._next = step + self._interval
        self._repeated[:] = False
        self._recorder.reads.clear()
        self._kept = _Kept(
            step,
            version,
            threads.at.copy(),
            threads.state.copy(),
            tuple(file.copy() for file in wave.files),
            wave.memories.shared.content.copy(),
            wave.memories.local.content.copy(),
        )

    def _compare(self, kept: _Kept, threads: ThreadStates) -> None:
        stepped = (threads.ran >= kept.step) | (threads.state != RUNNING)
        same = (threads.at == kept.at) & (threads.state == kept.state) & stepped
        for cluster in np.flatnonzero(same.reshape(-1, self._each).all(axis=1) & ~self._repeated).tolist():
            self._repeated[cluster] = self._is_equal(kept, cluster)

    def _is_equal(self, kept: _Kept, cluster: int) -> bool:
        wave = self._wave
        own = slice(cluster * self._each, (cluster + 1) * self._each)
        if not all(np.array_equal(now[:, own], then[:, own]) for now, then in zip(wave.files, kept.files, strict=True)):
            return False
        parts = ((wave.memories.shared.content, kept.shared), (wave.memories.local.content, kept.local))
        count = len(self._repeated)
        return all(
            np.array_equal(now.reshape(count, -1)[cluster], then.reshape(count, -1)[cluster]) for now, then in parts
        )


class _Recorder(GlobalWatch):
    """Records the elements that loads and atomics read."""

    def __init__(self, inner: GlobalWatch) -> None:
        self._inner = inner
        self.reads: dict[tuple[int, int], tuple[PtxInstruction, MemoryRegion, list[Array]]] = {}

    def stray(self, instruction: PtxInstruction, addresses: Array, programs: Array, size_bytes: int) -> None:
        self._inner.stray(instruction, addresses, programs, size_bytes)

    def loaded(self, instruction: PtxInstruction, part: RegionPart, values: Array, programs: Array) -> None:
        self._inner.loaded(instruction, part, values, programs)
        self._add(instruction, part, programs)

    def stored(self, instruction: PtxInstruction, part: RegionPart, size_bytes: int, programs: Array) -> None:
        self._inner.stored(instruction, part, size_bytes, programs)

    def updated(self, instruction: PtxInstruction, part: RegionPart, size_bytes: int, programs: Array) -> None:
        self._inner.updated(instruction, part, size_bytes, programs)
        self._add(instruction, part, programs)

    def _add(self, instruction: PtxInstruction, part: RegionPart, programs: Array) -> None:
        _, _, places = self.reads.setdefault((id(instruction), part.region.address), (instruction, part.region, []))
        places.append(np.unique(np.stack([programs, part.offsets]), axis=1))

    def polled(self) -> tuple[Polled, ...]:
        return tuple(
            Polled(instruction, region, np.unique(np.concatenate(places, axis=1), axis=1))
            for instruction, region, places in self.reads.values()
        )
