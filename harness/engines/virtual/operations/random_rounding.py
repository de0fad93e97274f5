"""Operation handlers with random rounding, which show how far rounding alone can change a kernel's results.

Two correct executions of one kernel, here and on a GPU, may fuse operations, add in another order or use another
exponential.  Each result in float32, float16 or bfloat16 is therefore perturbed at random by that much (Monte
Carlo arithmetic: D. S. Parker, 1997).  Cancellation then shows as a large spread between runs.  Sums of a block are
added in a random order, since one order may overflow where another does not.

Tensor cores truncate instead of rounding.  They sum a few products at once, each to a few bits below the largest, and
drop the bits that float32 cannot hold.  Truncation losses add up, whereas rounding errors partly cancel.  Source:
M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021.
"""

from collections.abc import Callable, Mapping

import numpy as np

from harness.engines.ttir.ir import Operation
from harness.engines.virtual.machine import Handler, Machine, Value, Values
from harness.engines.virtual.numbers.elements import Array, rounded
from harness.engines.virtual.operations.product import factors, scaled_factors

EPSILON = 2.0**-23
EPSILONS = {"f32": EPSILON, "f16": 2.0**-10, "bf16": 2.0**-7}
"""By element type, the distance from 1 to the next larger number; other types are not perturbed."""
CORRECTLY_ROUNDED = frozenset(
    {"arith.addf", "arith.subf", "arith.mulf", "math.fma", "tt.precise_divf", "tt.precise_sqrt"}
)
"""Off by at most half a unit in the last place, or by one if a GPU fuses operations that are separate here."""
APPROXIMATE = frozenset(
    {
        *("arith.divf", "tt.approx_divf", "arith.remf", "tt.extern_elementwise", "tt.elementwise_inline_asm"),
        *("math.exp", "math.exp2", "math.log", "math.log2", "math.sqrt", "math.rsqrt", "math.sin", "math.cos"),
        *("math.tanh", "math.erf"),
    }
)
"""Off by two units: the CUDA C++ Programming Guide's bound for fast divisions, square roots, `ex2` and `lg2`."""
SUMS = frozenset({"tt.reduce", "tt.scan"})
"""Their terms are perturbed too: a sum that cancels is as uncertain as its largest term."""
Blocks = tuple[Array, Array, Array]
"""Both factors of a matrix product, and its accumulator operand."""
Factors = Callable[[Operation, list[Value]], Blocks]
PRODUCTS: Mapping[str, Factors] = {"tt.dot": factors, "tt.dot_scaled": scaled_factors}
PRODUCTS_AT_ONCE, PRODUCTS_AT_ONCE_OF_8_BITS = {"f32": 8, "f16": 16, "bf16": 16}, 32
"""By element type, the number of products that one instruction sums: 32 bytes of a row."""
LOSS_OF_8_BITS = 2.0**-12
"""Average loss of a sum of 8-bit floats per instruction, relative to its largest term: Hopper keeps 13 bits of each.

For other types the loss is one unit of the result.  An H200 loses 0.9 (bfloat16) to 1.7 (float16) units of a sum whose
products are all positive.
"""


def rounded_at_random(handlers: Mapping[str, Handler], seed: int, times: float = 1.0) -> dict[str, Handler]:
    """Return the same handlers with random rounding; equal seeds and launches give equal results.

    `times` multiplies what is added to each result.
    """
    generator = np.random.default_rng(seed)
    # Losses of one launch add up.  What they are taken from is rounded itself, so they move it to either side.
    side = -1.0 if seed % 2 else 1.0
    perturbed = dict(handlers)
    for names, units in ((CORRECTLY_ROUNDED, 1.0), (APPROXIMATE, 2.0)):
        for name in names & handlers.keys():
            perturbed[name] = _perturb_results(handlers[name], times * units, generator)
    for name in SUMS & handlers.keys():
        perturbing = _perturb_results(handlers[name], times, generator)
        perturbed[name] = _perturb_terms(perturbing, handlers[name], times, generator)
    for name in PRODUCTS.keys() & handlers.keys():
        perturbed[name] = _truncate_sums(handlers[name], PRODUCTS[name], side * times, generator)
    return perturbed


def _perturb_results(handler: Handler, units: float, generator: np.random.Generator) -> Handler:
    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Value | Values | None:
        result = handler(machine, operation, frame)
        if not isinstance(result, tuple):
            return result if result is None else _perturbed(result, operation.result_types[0].element, units, generator)
        kinds = zip(result, operation.result_types, strict=True)
        return tuple(_perturbed(value, kind.element, units, generator) for value, kind in kinds)

    return handle


def _perturb_terms(perturbing: Handler, exact: Handler, units: float, generator: np.random.Generator) -> Handler:
    (order_generator,) = generator.spawn(1)  # orders must not shift the draws of perturbations

    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Value | Values | None:
        if operation.regions and not combines_with_rounding(operation):
            return exact(machine, operation, frame)
        terms = list(frame)
        for slot, kind in zip(operation.operands, operation.operand_types, strict=True):
            terms[slot] = _perturbed(frame[slot], kind.element, units, generator)
        if _only_adds(operation):
            (slot,) = operation.operands
            terms[slot] = _shuffled(operation, terms[slot], order_generator)
        return perturbing(machine, operation, terms)

    return handle


def _truncate_sums(handler: Handler, factors_of: Factors, times: float, generator: np.random.Generator) -> Handler:
    def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Value | Values | None:
        result, element = handler(machine, operation, frame), operation.result_types[0].element
        if element not in EPSILONS or not isinstance(result, np.ndarray):
            return result
        # Before Blackwell, Triton multiplies scaled blocks as bfloat16.
        factor = operation.operand_types[0].element if operation.name == "tt.dot" else "bf16"
        unit = max(EPSILONS[element], 0.0 if factor in PRODUCTS_AT_ONCE else LOSS_OF_8_BITS)
        at_once = PRODUCTS_AT_ONCE.get(factor, PRODUCTS_AT_ONCE_OF_8_BITS)
        loss = times * _truncation_loss(factors_of(operation, frame), at_once, unit, generator)
        return rounded((result - loss).astype(np.float32), element)

    return handle


def _truncation_loss(blocks: Blocks, at_once: int, unit: float, generator: np.random.Generator) -> Array:
    """Draw what tensor cores truncate of `left @ right + sums`; zero where the loss is not finite."""
    left, right, sums = (block.astype(np.float64) for block in blocks)
    loss = np.zeros((*left.shape[:-1], right.shape[-1]))
    with np.errstate(all="ignore"):
        for begin in range(0, left.shape[-1], at_once):
            rows, columns = left[..., begin : begin + at_once], right[..., begin : begin + at_once, :]
            largest = np.maximum(np.abs(sums), np.sqrt(np.matmul(rows**2, columns**2)))
            sums = sums + np.matmul(rows, columns)
            largest = np.maximum(largest, np.abs(sums))
            loss += np.copysign(largest * generator.uniform(0.0, 2 * unit, loss.shape), sums)
    return np.where(np.isfinite(loss), loss, 0.0)


def _only_adds(operation: Operation) -> bool:
    """Return True for a reduction of one block that only adds: any order of its terms is correct."""
    bodies = [region.entry.operations for region in operation.regions]
    return operation.name == "tt.reduce" and [[inner.name for inner in body[:-1]] for body in bodies] == [
        ["arith.addf"]
    ]


def _shuffled(operation: Operation, value: Value, order_generator: np.random.Generator) -> Value:
    axis = int(operation.attributes["axis"]) + 1  # type: ignore[arg-type] - after the axis of programs
    return order_generator.permutation(value, axis=axis) if isinstance(value, np.ndarray) else value


def combines_with_rounding(operation: Operation) -> bool:
    """Return True if the combine region rounds; a maximum does not."""
    inner = (part for region in operation.regions for block in region.blocks for part in block.operations)
    return any(part.name in CORRECTLY_ROUNDED or part.name in APPROXIMATE for part in inner)


def _perturbed(value: Value, element: str, units: float, generator: np.random.Generator) -> Value:
    if element not in EPSILONS or not isinstance(value, np.ndarray):
        return value
    most = units * EPSILONS[element]
    return rounded((value * (1 + generator.uniform(-most, most, value.shape))).astype(np.float32), element)
