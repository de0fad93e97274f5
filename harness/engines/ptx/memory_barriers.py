"""`mbarrier` instructions that do not wait: an object is made, expects bytes, hears of arrivals; and proxy fences."""

from dataclasses import dataclass

import numpy as np

from harness.engines.ptx.async_work import BarrierKey
from harness.engines.ptx.barriers import MemoryBarrier
from harness.engines.ptx.ptx_kernel import Address, PtxInstruction
from harness.engines.ptx.threads import Array
from harness.engines.ptx.wave import Effect, Read, RegisterRows, Wave
from harness.errors import CannotExecute


def memory_barrier_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """Return the effect of an instruction on mbarrier objects.

    Raises:
        CannotExecute: the instruction is not known.
    """
    words = instruction.words
    if words[0] == "fence":
        return _fence(instruction)
    if words[0] == "cp":
        return _copies_arrive(instruction, rows)
    match words[1]:
        case "init":
            return _init(instruction, rows)
        case "inval":
            return _invalidate(instruction, rows)
        case "arrive" | "arrive_drop" | "expect_tx" | "complete_tx":
            return _arrive(instruction, rows)
        case "test_wait":
            return _test_wait(instruction, rows)
        case _:
            raise CannotExecute(f"the PTX instruction {instruction.opcode}")


def _fence(instruction: PtxInstruction) -> Effect:
    is_async = any(word.startswith("async") for word in instruction.words)

    def effect(wave: Wave) -> None:
        if is_async:
            wave.asynchronous.shadow.fenced(wave.mask_of_active())

    return effect


def _address(instruction: PtxInstruction, rows: RegisterRows) -> Read:
    operand = next(part for part in instruction.operands if isinstance(part, Address))
    return rows.address(operand)


def _init(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    address, count = _address(instruction, rows), rows.reader(instruction.operands[1], np.uint32)

    def effect(wave: Wave) -> None:
        barriers = wave.barriers
        counts = np.broadcast_to(count(wave), (wave.size,))
        for key, threads in barriers.groups(wave.mask_of_active(), address(wave)):
            expected = int(counts[threads][0])
            barriers.objects[key] = MemoryBarrier(expected, expected)
            wave.asynchronous.shadow.initialised(threads, key)

    return effect


def _invalidate(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    address = _address(instruction, rows)

    def effect(wave: Wave) -> None:
        barriers = wave.barriers
        for key, _ in barriers.groups(wave.mask_of_active(), address(wave)):
            barriers.at(key, instruction)
            del barriers.objects[key]

    return effect


def _arrive(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`mbarrier.arrive`, `expect_tx`, and both in one; each thread arrives once, or as often as its count says."""
    words = instruction.words
    address = _address(instruction, rows)
    at = next(number for number, part in enumerate(instruction.operands) if isinstance(part, Address))
    number = rows.reader(instruction.operands[at + 1], np.uint32) if len(instruction.operands) > at + 1 else None
    expects, arrives = "expect_tx" in words, words[1] in {"arrive", "arrive_drop"}
    if words[1] == "arrive_drop" or "complete_tx" in words:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")

    def effect(wave: Wave) -> None:
        barriers = wave.barriers
        numbers = np.ones(wave.size, np.uint32) if number is None else np.broadcast_to(number(wave), (wave.size,))
        for key, threads in barriers.groups(wave.mask_of_active(), address(wave)):
            item = barriers.at(key, instruction)
            total = int(numbers[threads].astype(np.int64).sum())
            if expects:
                item.transactions += total
            if arrives:
                item.pending -= int(threads.sum()) if expects else total
                wave.asynchronous.shadow.arrived(threads, key)
            barriers.settle(key)

    return effect


def _test_wait(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    if "parity" not in instruction.words:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    address, write = _address(instruction, rows), rows.writer(instruction.operands[0])
    wanted = rows.reader(instruction.operands[2], np.uint32)

    def effect(wave: Wave) -> None:
        barriers = wave.barriers
        parities = np.broadcast_to(wanted(wave), (wave.size,))
        result = np.zeros(wave.size, np.bool_)
        for key, threads in barriers.groups(wave.mask_of_active(), address(wave)):
            done = threads & ((barriers.at(key, instruction).phase & 1) != (parities & 1))
            result |= done
            if done.any():
                wave.asynchronous.shadow.waited(done, key)
        write(wave, result)

    return effect


def _copies_arrive(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`cp.async.mbarrier.arrive`: an arrival once the thread's copies so far have landed."""
    address = _address(instruction, rows)
    counted = "noinc" in instruction.words

    def effect(wave: Wave) -> None:
        barriers = wave.barriers
        for key, threads in barriers.groups(wave.mask_of_active(), address(wave)):
            item = barriers.at(key, instruction)
            if not counted:
                item.pending += int(threads.sum())
            wave.asynchronous.copies.commit(threads)
            wave.asynchronous.bulk.append(_Arrival(wave, threads, key))

    return effect


@dataclass(frozen=True, slots=True)
class _Arrival:
    """Threads arrive at an mbarrier when their copies have landed."""

    wave: Wave
    threads: Array
    key: BarrierKey

    def land(self) -> None:
        wave = self.wave
        wave.asynchronous.copies.wait(self.threads, 0)
        wave.asynchronous.shadow.arrived(self.threads, self.key)
        wave.barriers.objects[self.key].pending -= int(self.threads.sum())
        wave.barriers.settle(self.key)
