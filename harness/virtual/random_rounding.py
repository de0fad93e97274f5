"""The machine's operations with random rounding: how far rounding alone moves what a kernel leaves behind.

Two right computations of one kernel, here and on a GPU, may fuse a product into a sum, add in another order or use
another exponential.  Each result in float32, float16 or bfloat16 is therefore moved at random by as much as that
makes a difference (Monte Carlo arithmetic: D. S. Parker, 1997); what cancels then shows by how much it is in doubt.
Sums of a block are added in a random order, since one may overflow on the way where another does not.
"""

from collections.abc import Mapping

import numpy as np

from harness.virtual.elements import NARROW_FLOATS, rounded
from harness.virtual.ir import Operation
from harness.virtual.machine import Handler, Machine, Value, Values

EPSILON = 2.0**-23
EPSILONS = {"f32": EPSILON, "f16": 2.0**-10, "bf16": 2.0**-7}
"""By type, the distance from 1 to the next larger number; others are left alone."""
CORRECTLY_ROUNDED = frozenset(
    {"arith.addf", "arith.subf", "arith.mulf", "math.fma", "tt.precise_divf", "tt.precise_sqrt"}
)
"""Off by half a unit in the last place at most, and by one where a GPU fuses what stands apart here."""
APPROXIMATE = frozenset(
    {
        *("arith.divf", "tt.approx_divf", "arith.remf", "tt.extern_elementwise", "tt.elementwise_inline_asm"),
        *("math.exp", "math.exp2", "math.log", "math.log2", "math.sqrt", "math.rsqrt", "math.sin", "math.cos"),
        *("math.tanh", "math.erf"),
    }
)
"""Off by two units: what the CUDA C++ Programming Guide allows quick divisions, square roots, `ex2` and `lg2`."""
SUMS = frozenset({"tt.dot", "tt.dot_scaled", "tt.reduce", "tt.scan"})
"""Their terms are moved too: a sum that cancels is as uncertain as its largest term."""


def rounded_at_random(handlers: Mapping[str, Handler], seed: int) -> dict[str, Handler]:
    """The same operations; equal seeds and launches give equal results."""
    generator = np.random.default_rng(seed)
    moved = dict(handlers)
    for names, units in ((CORRECTLY_ROUNDED, 1.0), (APPROXIMATE, 2.0)):
        for name in names & handlers.keys():
            moved[name] = _moving_results(handlers[name], units, generator)
    for name in SUMS & handlers.keys():
        moved[name] = _moving_terms(_moving_results(handlers[name], 1.0, generator), handlers[name], generator)
    return moved


def _moving_results(handler: Handler, units: float, generator: np.random.Generator) -> Handler:
    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Value | Values | None:
        made = handler(machine, operation, frame)
        if not isinstance(made, tuple):
            return made if made is None else _moved(made, operation.result_types[0].element, units, generator)
        kinds = zip(made, operation.result_types, strict=True)
        return tuple(_moved(value, kind.element, units, generator) for value, kind in kinds)

    return handle


def _moving_terms(moving: Handler, exact: Handler, generator: np.random.Generator) -> Handler:
    (orders,) = generator.spawn(1)

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Value | Values | None:
        if operation.regions and not _rounds(operation):
            return exact(machine, operation, frame)
        terms = list(frame)
        for slot, kind in zip(operation.operands, operation.operand_types, strict=True):
            terms[slot] = _moved(frame[slot], _summed_in(operation, kind.element), 1.0, generator)
        if _only_adds(operation):
            (slot,) = operation.operands
            terms[slot] = _reordered(operation, terms[slot], orders)
        return moving(machine, operation, terms)

    return handle


def _summed_in(operation: Operation, element: str) -> str:
    """The type that terms of a sum have when they are added: of a product, float32 whatever its factors are kept in."""
    return "f32" if element in NARROW_FLOATS and not operation.regions else element


def _only_adds(operation: Operation) -> bool:
    """Whether it is a reduction that adds, of one block: any order of its terms is right."""
    bodies = [region.entry.operations for region in operation.regions]
    return operation.name == "tt.reduce" and [[one.name for one in body[:-1]] for body in bodies] == [["arith.addf"]]


def _reordered(operation: Operation, value: Value, orders: np.random.Generator) -> Value:
    axis = int(operation.attributes["axis"]) + 1  # type: ignore[arg-type] - after the axis of programs
    return orders.permutation(value, axis=axis) if isinstance(value, np.ndarray) else value


def _rounds(operation: Operation) -> bool:
    """Whether what the operation combines with rounds: a maximum does not."""
    inner = (one for region in operation.regions for block in region.blocks for one in block.operations)
    return any(one.name in CORRECTLY_ROUNDED or one.name in APPROXIMATE for one in inner)


def _moved(value: Value, element: str, units: float, generator: np.random.Generator) -> Value:
    if element not in EPSILONS or not isinstance(value, np.ndarray):
        return value
    furthest = units * EPSILONS[element]
    return rounded((value * (1 + generator.uniform(-furthest, furthest, value.shape))).astype(np.float32), element)
