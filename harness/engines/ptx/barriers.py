"""Barriers: `bar.sync` and named barriers of a CTA, `mbarrier` objects in shared memory, and cluster barriers."""

from dataclasses import dataclass

import numpy as np

from harness.engines.ptx.async_work import AsyncWork, BarrierKey
from harness.engines.ptx.memories import RANK_SHIFT, Flaw, Flaws
from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.threads import Array, LaunchShape
from harness.errors import CannotExecute

CLUSTER_BARRIER = 16
"""The number of the cluster barrier, after those of a CTA."""


@dataclass(slots=True)
class MemoryBarrier:
    """An `mbarrier` object: a phase, and what is missing for it to complete."""

    expected: int
    """The arrivals of each phase."""
    pending: int
    transactions: int = 0
    """The bytes that are expected and have not landed."""
    phase: int = 0
    """The number of completed phases."""

    def settle(self) -> bool:
        """Complete the phase if nothing is missing."""
        if self.pending > 0 or self.transactions != 0:
            return False
        self.phase += 1
        self.pending = self.expected
        return True


@dataclass(slots=True)
class _Arrivals:
    """The threads that wait at one named barrier."""

    threads: Array
    count: int = 0


class Barriers:
    """The barriers of a wave."""

    def __init__(self, ctas: int, shape: LaunchShape, flaws: Flaws, asynchronous: AsyncWork, ids: Array) -> None:
        """`ids` are the linear ids of the CTAs."""
        self._shape = shape
        self._size = ctas * shape.threads
        self._flaws = flaws
        self._shadow = asynchronous.shadow
        self._ids = ids
        self._arrived: dict[BarrierKey, _Arrivals] = {}
        self._released: list[Array] = []
        self.objects: dict[BarrierKey, MemoryBarrier] = {}
        """By CTA in the wave and address in its shared memory."""
        self._waiting: dict[BarrierKey, Array] = {}
        self._moved: set[BarrierKey] = set()

    def _none(self) -> Array:
        return np.zeros(self._size, np.bool_)

    # --- barriers of a CTA ---

    def arrive(self, group: Array, number: Array, count: Array | None, *, waits: bool) -> Array:
        """Let threads arrive; return those that need not wait.

        Args:
            group: the mask of the threads.
            number: the barrier, for each thread or for all.
            count: how many threads it takes, for each thread or for all; None for all of the CTA.
            waits: False for threads that only arrive.
        """
        threads = self._shape.threads
        if waits and count is None and not self._arrived and group.all():
            self._shadow.met(None)
            return group
        numbers = np.broadcast_to(number, (self._size,))
        counts = None if count is None else np.broadcast_to(count, (self._size,))
        for cta in np.unique(np.flatnonzero(group) // threads).tolist():
            own = slice(cta * threads, (cta + 1) * threads)
            for name in np.unique(numbers[own][group[own]]).tolist():
                here = self._none()
                here[own] = group[own] & (numbers[own] == name)
                wanted = 0 if counts is None else int(counts[here][0])
                self._arrive_at((cta, int(name)), here, wanted or threads, waits=waits)
        return self._none() if waits else group

    def _arrive_at(self, key: BarrierKey, here: Array, wanted: int, *, waits: bool) -> None:
        arrived = self._arrived.setdefault(key, _Arrivals(self._none()))
        self._shadow.arrived(here, key)
        arrived.count += int(here.sum())
        if waits:
            arrived.threads |= here
        if arrived.count >= wanted:
            self._shadow.met(arrived.threads, key)
            self._released.append(arrived.threads)
            del self._arrived[key]

    def arrive_cluster(self, group: Array, *, waits: bool) -> Array:
        """Let threads arrive at, or wait for, the barrier of their cluster."""
        each = self._shape.threads * self._shape.cluster
        for cluster in np.unique(np.flatnonzero(group) // each).tolist():
            own = self._none()
            own[cluster * each : (cluster + 1) * each] = True
            key = (cluster, CLUSTER_BARRIER)
            arrived = self._arrived.setdefault(key, _Arrivals(self._none()))
            if waits:
                arrived.threads |= group & own
            else:
                self._shadow.arrived(group & own, key)
                arrived.count += int((group & own).sum())
            if arrived.count >= each and arrived.threads.sum() == each:
                self._shadow.met(arrived.threads, key)
                self._released.append(arrived.threads)
                del self._arrived[key]
        return self._none() if waits else group

    def released(self) -> Array | None:
        """Return the threads that a barrier has just let go on; None if there are none."""
        if not self._released:
            return None
        released = np.logical_or.reduce(self._released)
        self._released.clear()
        return released

    # --- mbarrier objects ---

    def key(self, cta: int, address: int) -> BarrierKey:
        """Return the key of an object from an address that a CTA uses."""
        cluster = self._shape.cluster
        if rank := address >> RANK_SHIFT:
            return cta // cluster * cluster + rank - 1, address & ((1 << RANK_SHIFT) - 1)
        return cta, address

    def groups(self, group: Array, addresses: Array) -> list[tuple[BarrierKey, Array]]:
        """Return the threads of a mask by the object that their address names."""
        active = np.flatnonzero(group)
        ctas = active // self._shape.threads
        named = np.broadcast_to(addresses, (self._size,))[active]
        pairs, which = np.unique(np.stack([ctas, named]), axis=1, return_inverse=True)
        groups: list[tuple[BarrierKey, Array]] = []
        for number in range(pairs.shape[1]):
            threads = self._none()
            threads[active[which.reshape(-1) == number]] = True
            groups.append((self.key(int(pairs[0, number]), int(pairs[1, number])), threads))
        return groups

    def at(self, key: BarrierKey, instruction: PtxInstruction) -> MemoryBarrier:
        """Return an object.

        Raises:
            CannotExecute: nothing has made it.
        """
        if key not in self.objects:
            self._flaws.add(
                Flaw("barrier not initialised", instruction, int(self._ids[key[0]]), 0, f"at address {key[1]:#x}")
            )
            raise CannotExecute(f"{instruction.opcode} on memory that is no mbarrier")
        return self.objects[key]

    def settle(self, key: BarrierKey) -> None:
        """Complete the phase of an object if nothing is missing, and wake who waits for it."""
        if self.objects[key].settle():
            self._shadow.completed(key)
            self._moved.add(key)

    def wait(self, key: BarrierKey, threads: Array) -> None:
        """Remember that threads wait for an object."""
        self._waiting.setdefault(key, self._none())
        self._waiting[key] |= threads

    def awake(self) -> Array | None:
        """Return the threads that wait for an object whose phase has completed; None if there are none."""
        moved = [threads for key in self._moved if (threads := self._waiting.pop(key, None)) is not None]
        self._moved.clear()
        return np.logical_or.reduce(moved) if moved else None
