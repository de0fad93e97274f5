"""Asynchronous work: copies and products that have been issued and have not landed.

Work lands as late as the waits of the kernel allow: a copy of `cp.async` at the wait for its group, a bulk copy when no
thread can run without it.  So a wait that is missing shows as old data, every time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from harness.engines.ptx.accesses import Access, load_lanes
from harness.engines.ptx.barriers import arrival
from harness.engines.ptx.bulk_copies import bulk_effect
from harness.engines.ptx.ir import Immediate, Instruction, Register
from harness.engines.ptx.memory_barriers import memory_barrier_effect
from harness.engines.ptx.warpgroups import warpgroup_effect
from harness.engines.ptx.wave import Array, Effect, Rows, Wave
from harness.errors import CannotExecute

if TYPE_CHECKING:
    from harness.engines.ptx.barriers import Barriers


class Pending(Protocol):
    """Work that lands when somebody waits for it."""

    def land(self, wave: Wave) -> None: ...


@dataclass(slots=True)
class _Copy:
    """One `cp.async`: bytes on their way to shared memory."""

    instruction: Instruction
    threads: Array
    places: Array
    content: Array
    """The bytes of each thread."""
    issued: object
    """What the shadow of shared memory knew at the issue."""

    def land(self, wave: Wave, landing: Array) -> None:
        """Land the copies of some threads."""
        mine = landing[self.threads]
        places = self.places[mine]
        size = self.content.shape[1]
        wave.asynchronous.landed(wave, self.instruction, self.threads[mine], places, size, self.issued)
        index = places[:, None] + np.arange(size)
        wave.memories.shared.content[index] = self.content[mine]
        wave.memories.shared.written[index] = True


@dataclass(slots=True)
class _Group:
    """The copies that threads committed together."""

    threads: Array
    copies: list[_Copy]
    landed: Array


@dataclass(slots=True)
class _Arrival:
    """Threads arrive at an mbarrier when their copies have landed."""

    threads: Array
    barrier: tuple[int, int]

    def land(self, wave: Wave) -> None:
        outer, wave.mask = wave.mask, self.threads
        wave.asynchronous.wait(wave, 0)
        wave.mask = outer
        barriers = wave.asynchronous.barriers
        wave.asynchronous.arrived(wave, self.threads, self.barrier)
        barriers.objects[self.barrier].pending -= int(self.threads.sum())
        barriers.settle(self.barrier)


class AsyncWork:
    """The asynchronous work of a wave, and the shadow of its shared memory."""

    barriers: "Barriers"

    def __init__(self, seed: int = 0) -> None:
        self._open: list[_Copy] = []
        self._groups: list[_Group] = []
        self._draws = np.random.default_rng(seed)
        self.bulk: list[Pending] = []
        """Copies and products that complete an mbarrier."""
        self.products: list[Pending] = []
        """Products of warpgroups."""
        self.on_copied: Callable[[Wave, Register, Register], None] | None = None

    # --- cp.async ---

    def issue(self, copy: _Copy) -> None:
        self._open.append(copy)

    def commit(self, wave: Wave) -> None:
        threads = np.ones(wave.size, np.bool_) if wave.mask is None else wave.mask.copy()
        self._groups.append(_Group(threads, self._open, np.zeros(wave.size, np.bool_)))
        self._open = []

    def wait(self, wave: Wave, pending: int) -> None:
        """Land all groups but the last `pending` ones of each thread."""
        threads = np.ones(wave.size, np.bool_) if wave.mask is None else wave.mask
        count = np.zeros(wave.size, np.int32)
        due: list[tuple[_Group, Array]] = []
        for group in reversed(self._groups):
            member = group.threads & threads
            landing = member & (count >= pending) & ~group.landed
            count += member
            if landing.any():
                due.append((group, landing))
        for group, landing in reversed(due):
            for copy in group.copies:
                copy.land(wave, landing)
            group.landed |= landing
        self._groups = [group for group in self._groups if not (group.landed | ~group.threads).all()]

    def wait_all(self, wave: Wave) -> None:
        self.commit(wave)
        self.wait(wave, 0)

    def arrive_with_copies(self, wave: Wave, threads: Array, barrier: tuple[int, int]) -> None:
        """Let threads arrive at an mbarrier once their copies so far have landed."""
        outer, wave.mask = wave.mask, threads
        self.commit(wave)
        wave.mask = outer
        self.bulk.append(_Arrival(threads, barrier))

    # --- work that lands at an mbarrier ---

    def land_next(self, wave: Wave) -> bool:
        """Land one piece of work that completes an mbarrier, in a drawn order; False if there is none."""
        if not self.bulk:
            return False
        work = self.bulk.pop(int(self._draws.integers(len(self.bulk))))
        work.land(wave)
        return True

    def finish(self, wave: Wave) -> None:
        """The wave has ended: land what is left."""
        while self.bulk:
            self.land_next(wave)

    def copied(self, wave: Wave, source: Register, destination: Register) -> None:
        """A register is copied, which may be the result of a product that has not landed."""
        if self.on_copied is not None:
            self.on_copied(wave, source, destination)

    # --- the shadow of shared memory; the default sees nothing ---

    def snapshot(self, wave: Wave) -> object:
        """Return what has happened before now."""

    def loaded(self, wave: Wave, instruction: Instruction, threads: Array, places: Array, size_bytes: int) -> None:
        """Threads load from shared memory."""

    def stored(self, wave: Wave, instruction: Instruction, threads: Array, places: Array, size_bytes: int) -> None:
        """Threads store to shared memory."""

    def updated(self, wave: Wave, instruction: Instruction, threads: Array, places: Array, size_bytes: int) -> None:
        """Threads update shared memory by an atomic."""

    def landed(
        self, wave: Wave, instruction: Instruction, threads: Array, places: Array, size_bytes: int, issued: object
    ) -> None:
        """A copy that threads issued lands in shared memory."""

    def arrived(self, wave: Wave, threads: Array, barrier: tuple[int, int]) -> None:
        """Threads arrive at a barrier."""

    def met(self, wave: Wave, threads: Array | None, barrier: tuple[int, int] | None = None) -> None:
        """Threads go on after a barrier; None for all threads, each at the barrier of its CTA."""

    def fenced(self, wave: Wave, threads: Array) -> None:
        """Threads make what they know of visible to asynchronous work."""

    def initialised(self, wave: Wave, threads: Array, barrier: tuple[int, int]) -> None:
        """A thread makes an mbarrier."""

    def completed(self, wave: Wave, barrier: tuple[int, int]) -> None:
        """The phase of an mbarrier is complete."""

    def waited(self, wave: Wave, threads: Array, barrier: tuple[int, int]) -> None:
        """Threads go on after a phase of an mbarrier."""


def copy_effect(instruction: Instruction, rows: Rows) -> Effect | None:
    """Return the effect of an instruction on copies and barriers that does not wait; None for another one."""
    words = instruction.words
    match words[0]:
        case "cp":
            return bulk_effect(instruction, rows) if "bulk" in words else _cp_async(instruction, rows)
        case "bar" | "barrier":
            return _no_wait(instruction, rows)
        case "mbarrier" | "fence":
            return memory_barrier_effect(instruction, rows)
        case "tensormap" | "mapa":
            return bulk_effect(instruction, rows)
        case "wgmma":
            return warpgroup_effect(instruction, rows)
        case _:
            return None


def _no_wait(instruction: Instruction, rows: Rows) -> Effect:
    if "warp" in instruction.words:
        return lambda wave: None
    if "arrive" in instruction.words:
        return arrival(instruction, rows)
    raise CannotExecute(f"the PTX instruction {instruction.opcode}")


def _cp_async(instruction: Instruction, rows: Rows) -> Effect:
    words = instruction.words
    if "commit_group" in words:
        return lambda wave: wave.asynchronous.commit(wave)
    if "wait_group" in words:
        (count,) = instruction.operands
        assert isinstance(count, Immediate)
        return lambda wave: wave.asynchronous.wait(wave, count.value)
    if "wait_all" in words:
        return lambda wave: wave.asynchronous.wait_all(wave)
    if "mbarrier" in words:
        return memory_barrier_effect(instruction, rows)
    return _copy(instruction, rows)


def _copy(instruction: Instruction, rows: Rows) -> Effect:
    """`cp.async`: bytes from global to shared memory; those beyond the given size are zero."""
    destination, source, size, *rest = instruction.operands
    assert isinstance(size, Immediate)
    target, origin = rows.address(destination)[0], rows.address(source)[0]
    length = size.value
    given = rows.reader(rest[0], np.uint32) if rest else None
    byte = Access(instruction, origin, np.uint8, 1, "global")
    word = Access(instruction, origin, np.uint32, 1, "global")

    def effect(wave: Wave) -> None:
        active = wave.active()
        addresses = np.broadcast_to(origin(wave), (wave.size,))[active]
        to = np.broadcast_to(target(wave), (wave.size,))[active]
        if ((addresses | to) & (length - 1)).any():
            raise CannotExecute(f"a misaligned access: {instruction}")
        content = np.zeros((len(active), length), np.uint8)
        sizes = np.full(len(active), length) if given is None else np.broadcast_to(given(wave), (wave.size,))[active]
        _fill(wave, content, active, addresses, np.minimum(sizes, length), (byte, word))
        places, outside = wave.memories.shared.offsets(to, wave.cta[active], length)
        if outside is not None:
            raise CannotExecute(f"{instruction.opcode} outside shared memory")
        copy = _Copy(instruction, active, places, content, wave.asynchronous.snapshot(wave))
        wave.asynchronous.issue(copy)

    return effect


def _fill(
    wave: Wave, content: Array, active: Array, addresses: Array, sizes: Array, accesses: Sequence[Access]
) -> None:
    """Load `sizes` bytes of each thread."""
    byte, word = accesses
    length = content.shape[1]
    if (sizes % 4 == 0).all() and length % 4 == 0:
        words = content.view(np.uint32)
        for number in range(length // 4):
            lanes = np.flatnonzero(sizes > 4 * number)
            if len(lanes):
                words[lanes, number] = load_lanes(wave, word, active[lanes], addresses[lanes] + 4 * number)
        return
    for number in range(length):
        lanes = np.flatnonzero(sizes > number)
        if len(lanes):
            content[lanes, number] = load_lanes(wave, byte, active[lanes], addresses[lanes] + number)


__all__ = ["AsyncWork", "Pending", "copy_effect", "field"]
