"""Device assertions, assumptions, device prints, and operations without effect here, such as barriers."""

from collections.abc import Mapping
from math import prod

import numpy as np

from harness.engines.ttir.ir import Operation
from harness.engines.ttir.notation import parse_string
from harness.engines.virtual.machine import Handler, Machine, Value
from harness.engines.virtual.numbers.elements import Array
from harness.engines.virtual.operations.arith import array

MOST_PRINTING = 16
"""How many programs print at one place of a kernel: the others would print much the same."""

MOST_LINES = 200
"""How many lines one launch prints: a loop would print without end."""


def assertion(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.assert`; Triton drops it from kernels that are not compiled with `debug`."""
    whole = _failing(machine, array(frame[operation.operands[0]]))
    if whole is None:
        return
    # A block that is the same for all programs has a program axis of length 1: scale the counts to all lanes.
    lanes = prod(operation.operand_types[0].shape) * machine.width
    failing = int(np.count_nonzero(whole)) * (lanes // whole.size)
    message = parse_string(operation.keywords[0])
    machine.memory.events.assertion(operation.location, message, _programs(machine, whole), failing)


def assumption(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`llvm.intr.assume`, of `tl.assume`: if it is false, the compiler's code may do anything."""
    whole = _failing(machine, array(frame[operation.operands[0]]))
    if whole is not None:
        machine.memory.events.assumption(operation.location, _programs(machine, whole))


def _failing(machine: Machine, holds: Array) -> Array | None:
    """Return the lanes of all programs for which a condition is false; None if there are none."""
    fails = machine.with_active(~holds, holds.ndim)
    assert fails is not None
    return np.broadcast_to(fails, (machine.width, *fails.shape[1:])) if fails.any() else None


def _programs(machine: Machine, failing: Array) -> Array:
    return machine.numbers[failing.reshape(machine.width, -1).any(axis=1)] - 1


def print_out(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """`tt.print`: a line for each program on standard output, which the parent shows on request."""
    text = parse_string(operation.keywords[0])
    active = machine.with_active(np.ones((machine.width,), np.bool_), 1)
    assert active is not None
    printing = np.flatnonzero(np.broadcast_to(active, (machine.width,)))
    x, y, z = (np.broadcast_to(machine.program_id(axis), (machine.width,)) for axis in "xyz")
    blocks = [array(frame[operand]) for operand in operation.operands]
    lines = [
        f"pid ({x[program]}, {y[program]}, {z[program]}){text}"
        + " ".join(_printed(block[program % block.shape[0]]) for block in blocks)
        for program in printing[:MOST_PRINTING]
    ]
    if len(printing) > MOST_PRINTING:
        lines.append(f"… and {len(printing) - MOST_PRINTING} more programs:{text}")
    before, machine.printed_lines = machine.printed_lines, machine.printed_lines + len(lines)
    if before <= MOST_LINES < machine.printed_lines:
        lines = [*lines[: MOST_LINES - before], "… and more: a launch prints no further lines here"]
    if before <= MOST_LINES:
        print(*lines, sep="\n", flush=True)  # noqa: T201 - the kernel prints


def _printed(block: Array) -> str:
    """Return the values of one program; long blocks are cut short in the middle."""
    return np.array2string(block, threshold=64, separator=" ")


def nothing(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """An operation without effect: each block is computed as one value, and launches run one after the other."""
    del machine, operation, frame


HANDLERS: Mapping[str, Handler] = {
    "tt.assert": assertion,
    "tt.print": print_out,
    "gpu.barrier": nothing,
    "ttg.barrier": nothing,
    "llvm.intr.assume": assumption,
    "tt.grid_dependency_wait": nothing,
    "tt.grid_dependency_launch_dependents": nothing,
}
