"""Asynchronous work: copies and products that have been issued and have not landed.

Work lands as late as the waits of the kernel allow: a copy of `cp.async` at the wait for its group, a bulk copy when no
thread can run without it.  So a wait that is missing shows as old data, every time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from harness.engines.ptx.accesses import Access, load_lanes, report
from harness.engines.ptx.barriers import arrival
from harness.engines.ptx.bulk_copies import bulk_effect
from harness.engines.ptx.groups import WorkGroups
from harness.engines.ptx.ir import Immediate, Instruction, Register
from harness.engines.ptx.memory_barriers import memory_barrier_effect
from harness.engines.ptx.warpgroups import warpgroup_effect
from harness.engines.ptx.wave import Array, Effect, Rows, Wave
from harness.errors import CannotExecute

if TYPE_CHECKING:
    from harness.engines.ptx.barriers import Barriers


@runtime_checkable
class Copied(Protocol):
    """Work that hears of copies of registers."""

    def copied(self, source: Register, destination: Register) -> None: ...


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
class _Arrival:
    """Threads arrive at an mbarrier when their copies have landed."""

    threads: Array
    barrier: tuple[int, int]

    def land(self, wave: Wave) -> None:
        outer, wave.mask = wave.mask, self.threads
        wave.asynchronous.copies.wait(wave, 0)
        wave.mask = outer
        barriers = wave.asynchronous.barriers
        wave.asynchronous.arrived(wave, self.threads, self.barrier)
        barriers.objects[self.barrier].pending -= int(self.threads.sum())
        barriers.settle(self.barrier)


class AsyncWork:
    """The asynchronous work of a wave, and the shadow of its shared memory."""

    barriers: "Barriers"

    def __init__(self, seed: int = 0) -> None:
        self.copies = WorkGroups()
        """Copies of `cp.async`."""
        self.products = WorkGroups()
        """Products of `wgmma`."""
        self.stores = WorkGroups()
        """Bulk copies from shared to global memory."""
        self.bulk: list[Pending] = []
        """Work that completes an mbarrier."""
        self._draws = np.random.default_rng(seed)

    def arrive_with_copies(self, wave: Wave, threads: Array, barrier: tuple[int, int]) -> None:
        """Let threads arrive at an mbarrier once their copies so far have landed."""
        outer, wave.mask = wave.mask, threads
        self.copies.commit(wave)
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
        del wave
        for work in self.products.works:
            if isinstance(work, Copied):
                work.copied(source, destination)

    def read_tile(
        self, wave: Wave, instruction: Instruction, threads: Array, addresses: Array, size_bytes: int, issued: object
    ) -> Array:
        """Return the elements that asynchronous work reads from shared memory.

        Args:
            wave: the wave.
            instruction: the one that issued the work.
            threads: for each tile a thread that issued it.
            addresses: for each tile the addresses of its elements.
            size_bytes: the bytes of an element.
            issued: what `snapshot` returned at the issue.
        """
        del issued
        shared = wave.memories.shared
        ctas = wave.cta[threads].reshape(-1, *(1,) * (addresses.ndim - 1))
        places, outside = shared.offsets(addresses, np.broadcast_to(ctas, addresses.shape), size_bytes)
        if outside is not None:
            report(wave, instruction, "outside shared memory", int(threads[0]), f"of {shared.size_bytes} bytes")
            places = np.where(outside, 0, places)
        dtype = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[size_bytes]
        return shared.view(dtype)[places // size_bytes]

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
        return lambda wave: wave.asynchronous.copies.commit(wave)
    if "wait_group" in words:
        (count,) = instruction.operands
        assert isinstance(count, Immediate)
        return lambda wave: wave.asynchronous.copies.wait(wave, count.value)
    if "wait_all" in words:
        return _wait_for_all
    if "mbarrier" in words:
        return memory_barrier_effect(instruction, rows)
    return _copy(instruction, rows)


def _wait_for_all(wave: Wave) -> None:
    wave.asynchronous.copies.commit(wave)
    wave.asynchronous.copies.wait(wave, 0)


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
        wave.asynchronous.copies.issue(copy)

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
