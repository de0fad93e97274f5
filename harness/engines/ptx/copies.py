"""Copies of `cp.async`, and what dispatches instructions on copies and barriers that do not wait."""

from dataclasses import dataclass

import numpy as np

from harness.engines.ptx.barrier_effects import arrival
from harness.engines.ptx.bulk_copies import bulk_effect
from harness.engines.ptx.lane_accesses import LaneAccess, load_lanes
from harness.engines.ptx.memory_barriers import memory_barrier_effect
from harness.engines.ptx.ptx_kernel import Immediate, PtxInstruction
from harness.engines.ptx.threads import Array
from harness.engines.ptx.warpgroups import warpgroup_effect
from harness.engines.ptx.wave import Effect, RegisterRows, Wave
from harness.errors import CannotExecute


@dataclass(frozen=True, slots=True)
class Copy:
    """One `cp.async`: bytes on their way to shared memory."""

    wave: Wave
    instruction: PtxInstruction
    threads: Array
    places: Array
    content: Array
    """The bytes of each thread."""
    issued: object
    """What the shadow of shared memory knew at the issue."""

    def land(self, landing: Array) -> None:
        """Land the copies of some threads."""
        mine = landing[self.threads]
        places = self.places[mine]
        size = self.content.shape[1]
        self.wave.asynchronous.shadow.landed(self.instruction, self.threads[mine], places, size, self.issued)
        index = places[:, None] + np.arange(size)
        shared = self.wave.memories.shared
        shared.content[index] = self.content[mine]
        shared.written[index] = True


def copy_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect | None:
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


def _no_wait(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    if "warp" in instruction.words:
        return lambda _: None
    if "arrive" in instruction.words:
        return arrival(instruction, rows)
    raise CannotExecute(f"the PTX instruction {instruction.opcode}")


def _cp_async(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    words = instruction.words
    if "commit_group" in words:
        return lambda wave: wave.asynchronous.copies.commit(wave.mask_of_active())
    if "wait_group" in words:
        (count,) = instruction.operands
        assert isinstance(count, Immediate)
        return lambda wave: wave.asynchronous.copies.wait(wave.mask_of_active(), count.value)
    if "wait_all" in words:
        return _wait_for_all
    if "mbarrier" in words:
        return memory_barrier_effect(instruction, rows)
    return _copy(instruction, rows)


def _wait_for_all(wave: Wave) -> None:
    wave.asynchronous.copies.commit(wave.mask_of_active())
    wave.asynchronous.copies.wait(wave.mask_of_active(), 0)


def _copy(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`cp.async`: bytes from global to shared memory; those beyond the given size are zero."""
    destination, source, size, *rest = instruction.operands
    if "L2::cache_hint" in instruction.words:
        rest.pop()
    assert isinstance(size, Immediate)
    target, origin = rows.address(destination), rows.address(source)
    length = size.value
    given = rows.reader(rest[0], np.uint32) if rest else None
    byte = LaneAccess(instruction, origin, np.uint8, 1, "global")
    word = LaneAccess(instruction, origin, np.uint32, 1, "global")

    def effect(wave: Wave) -> None:
        active = wave.active()
        addresses = np.broadcast_to(origin(wave), (wave.size,))[active]
        to = np.broadcast_to(target(wave), (wave.size,))[active]
        if ((addresses | to) & (length - 1)).any():
            raise CannotExecute(f"a misaligned access: {instruction}")
        content = np.zeros((len(active), length), np.uint8)
        sizes = np.full(len(active), length) if given is None else np.broadcast_to(given(wave), (wave.size,))[active]
        _fill(wave, content, (active, addresses, np.minimum(sizes, length)), (byte, word))
        places, outside = wave.memories.shared.offsets(to, wave.cta[active], length)
        if outside is not None:
            raise CannotExecute(f"{instruction.opcode} outside shared memory")
        copy = Copy(wave, instruction, active, places, content, wave.asynchronous.shadow.snapshot())
        wave.asynchronous.copies.issue(wave.mask_of_active(), copy)

    return effect


def _fill(
    wave: Wave, content: Array, sources: tuple[Array, Array, Array], accesses: tuple[LaneAccess, LaneAccess]
) -> None:
    """Load bytes for each thread: `sources` are the threads, their addresses, and how many bytes each loads."""
    (active, addresses, sizes), (byte, word) = sources, accesses
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
