"""The machine's operations with random rounding: how far rounding alone moves what a kernel leaves behind.

Two right computations of one kernel, here and on a GPU, may fuse a product into a sum, add in another order or use
another exponential.  Each result in float32, float16 or bfloat16 is therefore moved at random by as much as that
makes a difference (Monte Carlo arithmetic: D. S. Parker, 1997); what cancels then shows by how much it is in doubt.
Sums of a block are added in a random order, since one may overflow on the way where another does not.

Tensor cores do not round, they cut: they sum a few products at once, each to a few bits below the largest, and leave
off what float32 has no place for (M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor
cores", 2021).  Losses add up, where of roundings half go up and half go down.
"""

from collections.abc import Callable, Mapping

import numpy as np

from harness.virtual.machine import Handler, Machine, Value, Values
from harness.virtual.numbers.elements import Array, rounded
from harness.virtual.operations.product import factors, scaled_factors
from harness.virtual.ttir.ir import Operation

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
SUMS = frozenset({"tt.reduce", "tt.scan"})
"""Their terms are moved too: a sum that cancels is as uncertain as its largest term."""
Blocks = tuple[Array, Array, Array]
"""What a product of blocks multiplies, and what it adds."""
Factors = Callable[[Operation, list[Value]], Blocks]
PRODUCTS: Mapping[str, Factors] = {"tt.dot": factors, "tt.dot_scaled": scaled_factors}
AT_ONCE, AT_ONCE_OF_8_BITS = {"f32": 8, "f16": 16, "bf16": 16}, 32
"""By type, how many products one instruction sums: 32 bytes of a row."""
LOST_OF_8_BITS = 2.0**-12
"""What an instruction loses of a sum of 8-bit floats on average, over its largest number: Hopper keeps 13 bits of each.

Of other types it is one unit of the result: an H200 loses 0.9 (bfloat16) to 1.7 (float16) where no product is negative.
"""


def rounded_at_random(handlers: Mapping[str, Handler], seed: int) -> dict[str, Handler]:
    """The same operations; equal seeds and launches give equal results."""
    generator = np.random.default_rng(seed)
    moved = dict(handlers)
    for names, units in ((CORRECTLY_ROUNDED, 1.0), (APPROXIMATE, 2.0)):
        for name in names & handlers.keys():
            moved[name] = _moving_results(handlers[name], units, generator)
    for name in SUMS & handlers.keys():
        moved[name] = _moving_terms(_moving_results(handlers[name], 1.0, generator), handlers[name], generator)
    for name in PRODUCTS.keys() & handlers.keys():
        moved[name] = _cutting_sums(handlers[name], PRODUCTS[name], generator)
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
            terms[slot] = _moved(frame[slot], kind.element, 1.0, generator)
        if _only_adds(operation):
            (slot,) = operation.operands
            terms[slot] = _reordered(operation, terms[slot], orders)
        return moving(machine, operation, terms)

    return handle


def _cutting_sums(handler: Handler, factors_of: Factors, generator: np.random.Generator) -> Handler:
    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Value | Values | None:
        made, element = handler(machine, operation, frame), operation.result_types[0].element
        if element not in EPSILONS or not isinstance(made, np.ndarray):
            return made
        # Before Blackwell, Triton multiplies scaled blocks as bfloat16.
        factor = operation.operand_types[0].element if operation.name == "tt.dot" else "bf16"
        unit = max(EPSILONS[element], 0.0 if factor in AT_ONCE else LOST_OF_8_BITS)
        at_once = AT_ONCE.get(factor, AT_ONCE_OF_8_BITS)
        lost = _lost(factors_of(operation, frame), at_once, unit, generator)
        return rounded((made - lost).astype(np.float32), element)

    return handle


def _lost(blocks: Blocks, at_once: int, unit: float, generator: np.random.Generator) -> Array:
    """What is cut off `left @ right + sums`, at random and toward zero; nothing where it is not finite."""
    left, right, sums = (block.astype(np.float64) for block in blocks)
    lost = np.zeros((*left.shape[:-1], right.shape[-1]))
    with np.errstate(all="ignore"):
        for begin in range(0, left.shape[-1], at_once):
            rows, columns = left[..., begin : begin + at_once], right[..., begin : begin + at_once, :]
            largest = np.maximum(np.abs(sums), np.sqrt(np.matmul(rows**2, columns**2)))
            sums = sums + np.matmul(rows, columns)
            largest = np.maximum(largest, np.abs(sums))
            lost += np.copysign(largest * generator.uniform(0.0, 2 * unit, lost.shape), sums)
    return np.where(np.isfinite(lost), lost, 0.0)


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
