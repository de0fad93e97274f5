"""Barriers: `bar.sync` and named barriers of a CTA, `mbarrier` objects in shared memory, and cluster barriers."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from harness.engines.ptx.ir import Address, Instruction
from harness.engines.ptx.memories import Flaw
from harness.engines.ptx.wave import Array, Rows, Wave
from harness.errors import CannotExecute

NAMED_BARRIERS = 16
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
    """The threads that wait at one named barrier of a CTA."""

    threads: Array
    count: int = 0


class Barriers:
    """The barriers of a wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._arrived: dict[tuple[int, int], _Arrivals] = {}
        self._released: list[Array] = []
        self._ended = np.zeros(wave.size, np.bool_)
        wave.asynchronous.barriers = self
        self.objects: dict[tuple[int, int], MemoryBarrier] = {}
        """By CTA in the wave and address in its shared memory."""
        self._waiting: dict[tuple[int, int], Array] = {}
        self._moved: set[tuple[int, int]] = set()

    # --- barriers of a CTA ---

    def arrive(self, group: Array, number: Array, count: Array, *, waits: bool, instruction: Instruction) -> Array:
        """Let threads arrive; return those that need not wait."""
        wave = self._wave
        threads = wave.shape.threads
        if waits and group.all() and (count == threads).all() and not self._arrived:
            wave.asynchronous.met(wave, None)
            return group
        passing = np.zeros(wave.size, np.bool_)
        numbers, counts = np.broadcast_to(number, (wave.size,)), np.broadcast_to(count, (wave.size,))
        for cta in np.unique(np.flatnonzero(group) // threads).tolist():
            own = slice(cta * threads, (cta + 1) * threads)
            for name in np.unique(numbers[own][group[own]]).tolist():
                here = np.zeros(wave.size, np.bool_)
                here[own] = group[own] & (numbers[own] == name)
                wanted = int(counts[own][group[own] & (numbers[own] == name)][0])
                self._arrive_at(cta, int(name), here, wanted, waits=waits)
        if not waits:
            return group
        return passing

    def _arrive_at(self, cta: int, name: int, here: Array, wanted: int, *, waits: bool) -> None:
        wave = self._wave
        arrived = self._arrived.setdefault((cta, name), _Arrivals(np.zeros(wave.size, np.bool_)))
        wave.asynchronous.arrived(wave, here, (cta, name))
        arrived.count += int(here.sum())
        if waits:
            arrived.threads |= here
        if arrived.count >= wanted:
            wave.asynchronous.met(wave, arrived.threads, (cta, name))
            self._released.append(arrived.threads)
            del self._arrived[cta, name]

    def ended(self, group: Array) -> None:
        """Threads have ended: hardware no longer counts them at a barrier of all threads."""
        self._ended |= group

    def arrive_cluster(self, group: Array, *, waits: bool) -> Array:
        """Let threads arrive at, or wait for, the barrier of their cluster."""
        wave = self._wave
        each = wave.shape.threads * wave.shape.cluster
        for cluster in np.unique(np.flatnonzero(group) // each).tolist():
            own = np.zeros(wave.size, np.bool_)
            own[cluster * each : (cluster + 1) * each] = True
            key = (cluster, CLUSTER_BARRIER)
            arrived = self._arrived.setdefault(key, _Arrivals(np.zeros(wave.size, np.bool_)))
            if waits:
                arrived.threads |= group & own
            else:
                wave.asynchronous.arrived(wave, group & own, key)
                arrived.count += int((group & own).sum())
            if arrived.count >= each and arrived.threads.sum() == each:
                wave.asynchronous.met(wave, arrived.threads, key)
                self._released.append(arrived.threads)
                del self._arrived[key]
        return group if not waits else np.zeros(wave.size, np.bool_)

    def released(self) -> Array | None:
        """Return the threads that a barrier has just let go on; None if there are none."""
        if not self._released:
            return None
        released = self._released[0].copy()
        for threads in self._released[1:]:
            released |= threads
        self._released.clear()
        return released

    # --- mbarrier objects ---

    def key(self, cta: int, address: int) -> tuple[int, int]:
        """Return the key of an object: its CTA in the wave, and its address there."""
        wave = self._wave
        if rank := address >> 24:
            return cta // wave.shape.cluster * wave.shape.cluster + rank - 1, address & 0xFFFFFF
        return cta, address

    def at(self, key: tuple[int, int], instruction: Instruction) -> MemoryBarrier:
        if key not in self.objects:
            self._wave.memories.flaws.add(
                Flaw("barrier not initialised", instruction, int(self._wave.ctas[key[0]]), 0, f"{key[1]:#x}")
            )
            raise CannotExecute(f"{instruction.opcode} on memory that is no mbarrier")
        return self.objects[key]

    def settle(self, key: tuple[int, int]) -> None:
        """Complete the phase of an object if nothing is missing, and wake who waits for it."""
        if self.objects[key].settle():
            self._wave.asynchronous.completed(self._wave, key)
            self._moved.add(key)

    def wait(self, key: tuple[int, int], threads: Array) -> None:
        waiting = self._waiting.setdefault(key, np.zeros(self._wave.size, np.bool_))
        waiting |= threads

    def awake(self) -> Array | None:
        """Return the threads that wait for an object whose phase has completed; None if there are none."""
        woken: Array | None = None
        for key in list(self._moved):
            threads = self._waiting.pop(key, None)
            if threads is not None:
                woken = threads if woken is None else woken | threads
        self._moved.clear()
        return woken

    @staticmethod
    def retries(instruction: Instruction) -> bool:
        """Return True if a thread that waits at the instruction executes it again when it is woken."""
        return instruction.root == "mbarrier"


Blocking = Callable[[Wave, Barriers, Array], Array]


def blocking_effect(instruction: Instruction, rows: Rows) -> Blocking:
    """Return what a blocking instruction does to the threads that reach it.

    Raises:
        CannotExecute: the instruction is not known.
    """
    words = instruction.words
    if words[0] == "mbarrier":
        return _try_wait(instruction, rows)
    if "cluster" in words:
        return lambda wave, barriers, group: barriers.arrive_cluster(group, waits=True)
    if "red" in words:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    number = rows.reader(instruction.operands[0], np.uint32)
    count = rows.reader(instruction.operands[1], np.uint32) if len(instruction.operands) > 1 else None

    def effect(wave: Wave, barriers: Barriers, group: Array) -> Array:
        wanted = np.array([wave.shape.threads]) if count is None else count(wave)
        return barriers.arrive(group, number(wave), wanted, waits=True, instruction=instruction)

    return effect


def arrival(instruction: Instruction, rows: Rows) -> Callable[[Wave], None]:
    """Return the effect of `bar.arrive` and of `barrier.cluster.arrive`, which do not wait."""
    if "cluster" in instruction.words:

        def arrive_cluster(wave: Wave) -> None:
            barriers = wave.asynchronous.barriers
            barriers.arrive_cluster(_mask(wave), waits=False)

        return arrive_cluster
    number, count = (rows.reader(operand, np.uint32) for operand in instruction.operands[:2])

    def arrive(wave: Wave) -> None:
        barriers = wave.asynchronous.barriers
        barriers.arrive(_mask(wave), number(wave), count(wave), waits=False, instruction=instruction)

    return arrive


def _mask(wave: Wave) -> Array:
    return np.ones(wave.size, np.bool_) if wave.mask is None else wave.mask.copy()


def _try_wait(instruction: Instruction, rows: Rows) -> Blocking:
    """`mbarrier.try_wait`: a thread waits until the phase with the parity has completed."""
    destination, source, parity = instruction.operands[:3]
    assert isinstance(source, Address)
    if "parity" not in instruction.words:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    write, (address, _) = rows.writer(destination), rows.address(source)
    wanted = rows.reader(parity, np.uint32)

    def effect(wave: Wave, barriers: Barriers, group: Array) -> Array:
        passing = np.zeros(wave.size, np.bool_)
        addresses = np.broadcast_to(address(wave), (wave.size,))
        parities = np.broadcast_to(wanted(wave), (wave.size,))
        for key, threads in groups_by_object(wave, barriers, group, addresses):
            item = barriers.at(key, instruction)
            # The phase with this parity is complete if the current one has the other parity.
            done = threads & ((item.phase & 1) != (parities & 1))
            passing |= done
            if (held := threads & ~done).any():
                barriers.wait(key, held)
            if done.any():
                wave.asynchronous.waited(wave, done, key)
        outer, wave.mask = wave.mask, passing
        write(wave, np.ones(wave.size, np.bool_))
        wave.mask = outer
        return passing

    return effect


def groups_by_object(
    wave: Wave, barriers: Barriers, group: Array, addresses: Array
) -> list[tuple[tuple[int, int], Array]]:
    """Return the threads of a mask by the mbarrier object that their address names."""
    active = np.flatnonzero(group)
    ctas = active // wave.shape.threads
    pairs, which = np.unique(np.stack([ctas, addresses[active]]), axis=1, return_inverse=True)
    groups: list[tuple[tuple[int, int], Array]] = []
    for number in range(pairs.shape[1]):
        threads = np.zeros(wave.size, np.bool_)
        threads[active[which.reshape(-1) == number]] = True
        groups.append((barriers.key(int(pairs[0, number]), int(pairs[1, number])), threads))
    return groups


__all__ = ["Barriers", "MemoryBarrier", "arrival", "blocking_effect", "field", "groups_by_object"]
