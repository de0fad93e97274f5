"""Instructions that wait at barriers, and those of a CTA or a cluster that only arrive."""

from collections.abc import Callable

import numpy as np

from harness.engines.ptx.ptx_kernel import Address, PtxInstruction
from harness.engines.ptx.threads import Array
from harness.engines.ptx.wave import Effect, RegisterRows, Wave
from harness.errors import CannotExecute

Blocking = Callable[[Wave, Array], Array]
"""Takes the mask of the threads that reach a barrier, and returns the mask of those that need not wait there."""


def blocking_effect(instruction: PtxInstruction, rows: RegisterRows) -> Blocking:
    """Return what a blocking instruction does to the threads that reach it.

    Raises:
        CannotExecute: the instruction is not known.
    """
    words = instruction.words
    if words[0] == "mbarrier":
        return _try_wait(instruction, rows)
    if "cluster" in words:
        return lambda wave, group: wave.barriers.arrive_cluster(group, waits=True)
    if "red" in words:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    number = rows.reader(instruction.operands[0], np.uint32)
    count = rows.reader(instruction.operands[1], np.uint32) if len(instruction.operands) > 1 else None

    def effect(wave: Wave, group: Array) -> Array:
        return wave.barriers.arrive(group, number(wave), None if count is None else count(wave), waits=True)

    return effect


def is_retried(instruction: PtxInstruction) -> bool:
    """Return True if a thread that waits at the instruction executes it again when it is woken."""
    return instruction.root == "mbarrier"


def arrival(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """Return the effect of `bar.arrive` and of `barrier.cluster.arrive`, which do not wait."""
    if "cluster" in instruction.words:

        def arrive_cluster(wave: Wave) -> None:
            wave.barriers.arrive_cluster(wave.mask_of_active(), waits=False)

        return arrive_cluster
    number, count = (rows.reader(operand, np.uint32) for operand in instruction.operands[:2])

    def arrive(wave: Wave) -> None:
        wave.barriers.arrive(wave.mask_of_active(), number(wave), count(wave), waits=False)

    return arrive


def _try_wait(instruction: PtxInstruction, rows: RegisterRows) -> Blocking:
    """`mbarrier.try_wait`: a thread waits until the phase with the parity has completed."""
    destination, source, parity = instruction.operands[:3]
    assert isinstance(source, Address)
    if "parity" not in instruction.words:
        raise CannotExecute(f"the PTX instruction {instruction.opcode}")
    write, address = rows.writer(destination), rows.address(source)
    wanted = rows.reader(parity, np.uint32)

    def effect(wave: Wave, group: Array) -> Array:
        passing = np.zeros(wave.size, np.bool_)
        parities = np.broadcast_to(wanted(wave), (wave.size,))
        for key, threads in wave.barriers.groups(group, address(wave)):
            item = wave.barriers.at(key, instruction)
            # The phase with this parity is complete if the current one has the other parity.
            done = threads & ((item.phase & 1) != (parities & 1))
            passing |= done
            if (held := threads & ~done).any():
                wave.barriers.wait(key, held)
            if done.any():
                wave.asynchronous.shadow.waited(done, key)
        outer, wave.mask = wave.mask, passing
        write(wave, np.ones(wave.size, np.bool_))
        wave.mask = outer
        return passing

    return effect
