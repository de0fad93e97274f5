"""What kernels say about themselves: assertions, prints, barriers, assumptions."""

from collections.abc import Mapping
from math import prod

import numpy as np

from harness.virtual.machine import Handler, Machine, Value
from harness.virtual.operations.arith import array
from harness.virtual.ttir.ir import Operation
from harness.virtual.ttir.notation import string


def assertion(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.assert`, which Triton leaves out of kernels that are not compiled for debugging."""
    holds = array(frame[operation.operands[0]])
    fails = machine.with_active(~holds, holds.ndim)
    assert fails is not None
    if not fails.any():
        return
    lanes = prod(operation.operand_types[0].shape) * machine.width
    whole = np.broadcast_to(fails, (machine.width, *fails.shape[1:]))
    programs = machine.numbers[whole.reshape(machine.width, -1).any(axis=1)] - 1
    failing = int(np.count_nonzero(whole)) * (lanes // whole.size)
    machine.memory.events.assertion(operation.location, string(operation.words[0]), programs, failing)


def nothing(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """Prints, barriers, assumptions, neighbouring launches: a block is one value, and launches follow one another."""
    del machine, operation, frame


HANDLERS: Mapping[str, Handler] = {
    "tt.assert": assertion,
    "tt.print": nothing,
    "gpu.barrier": nothing,
    "ttg.barrier": nothing,
    "llvm.intr.assume": nothing,
    "tt.grid_dependency_wait": nothing,
    "tt.grid_dependency_launch_dependents": nothing,
}
