"""Device assertions, and operations without effect here: prints, barriers, assumptions."""

from collections.abc import Mapping
from math import prod

import numpy as np

from harness.virtual.machine import Handler, Machine, Value
from harness.virtual.operations.arith import array
from harness.virtual.ttir.ir import Operation
from harness.virtual.ttir.notation import parse_string


def assertion(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.assert`; Triton drops it from kernels that are not compiled with `debug`."""
    holds = array(frame[operation.operands[0]])
    fails = machine.with_active(~holds, holds.ndim)
    assert fails is not None
    if not fails.any():
        return
    # A block that is the same for all programs has a program axis of length 1: scale the counts to all lanes.
    lanes = prod(operation.operand_types[0].shape) * machine.width
    whole = np.broadcast_to(fails, (machine.width, *fails.shape[1:]))
    programs = machine.numbers[whole.reshape(machine.width, -1).any(axis=1)] - 1
    failing = int(np.count_nonzero(whole)) * (lanes // whole.size)
    machine.memory.events.assertion(operation.location, parse_string(operation.keywords[0]), programs, failing)


def nothing(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """An operation without effect: each block is computed as one value, and launches run one after the other."""
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
