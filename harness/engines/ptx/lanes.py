"""Instructions that each thread executes on its own registers: arithmetic, comparisons, conversions, moves.

Common types have functions of their own.  All others go through `ptx_instructions`, which inline assembly in TTIR uses
too.
"""

from collections.abc import Mapping

import numpy as np

from harness.engines.ptx.carry_lanes import CARRYING, carry_effect, uses_carry
from harness.engines.ptx.choice_lanes import compare, select, select_by_sign, set_where
from harness.engines.ptx.float_lanes import (
    approximate,
    divide,
    extreme,
    float_or,
    fused_product,
    sign_copied,
    tested,
)
from harness.engines.ptx.integer_lanes import (
    counted,
    divided,
    dot_of_bytes,
    extract,
    highest_bit,
    insert,
    leading_zeros,
    multiply_integers,
    remainder,
    reversed_bits,
    shift,
)
from harness.engines.ptx.lane_forms import Build, general, simple
from harness.engines.ptx.moving_lanes import cache_policy, convert, move, to_address
from harness.engines.ptx.ptx_kernel import PtxInstruction
from harness.engines.ptx.wave import Effect, RegisterRows


def lane_effect(instruction: PtxInstruction, rows: RegisterRows) -> Effect | None:
    """Return what an instruction does to each thread alone; None if it is no instruction of one thread.

    Raises:
        CannotExecute: the instruction has a form that is not known.
    """
    build = _BUILDERS.get(instruction.root)
    if uses_carry(instruction) and (build is not None or instruction.root in CARRYING):
        return carry_effect(instruction, rows)
    return build(instruction, rows) if build is not None else None


def _multiply(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`mul` and `mad` of any type."""
    if instruction.kind[0] in "su":
        return multiply_integers(instruction, rows)
    if instruction.root == "mad":
        return fused_product(instruction, rows)
    return float_or({"f": np.multiply})(instruction, rows)


def _divide(instruction: PtxInstruction, rows: RegisterRows) -> Effect:
    """`div` of any type."""
    if instruction.kind[0] in "su":
        return simple({"s": divided, "u": divided})(instruction, rows)
    return divide(instruction, rows)


_BUILDERS: Mapping[str, Build] = {
    "abs": simple({"s": np.abs, "f": np.abs}),
    "add": float_or({"s": np.add, "u": np.add, "b": np.add, "f": np.add}),
    "and": simple({"b": np.bitwise_and, "p": np.logical_and}),
    "bfe": extract,
    "bfi": insert,
    "bfind": counted(highest_bit),
    "brev": simple({"b": reversed_bits}),
    "clz": counted(leading_zeros),
    "copysign": sign_copied,
    "cos": approximate(np.cos),
    "cvt": convert,
    "cvta": to_address,
    "createpolicy": cache_policy,
    "div": _divide,
    "dp4a": dot_of_bytes,
    "ex2": approximate(np.exp2),
    "fma": fused_product,
    "lg2": approximate(np.log2),
    "lop3": general,
    "mad": _multiply,
    "max": extreme,
    "min": extreme,
    "mov": move,
    "mul": _multiply,
    "neg": simple({"s": np.negative, "f": np.negative}),
    "not": simple({"b": np.bitwise_not, "p": np.logical_not}),
    "or": simple({"b": np.bitwise_or, "p": np.logical_or}),
    "popc": counted(np.bitwise_count),
    "prmt": general,
    "rcp": approximate(np.reciprocal),
    "rem": simple({"s": remainder, "u": remainder}),
    "rsqrt": approximate(lambda values: 1 / np.sqrt(values)),
    "selp": select,
    "set": set_where,
    "setp": compare,
    "shf": general,
    "shl": shift,
    "shr": shift,
    "sin": approximate(np.sin),
    "slct": select_by_sign,
    "sqrt": approximate(np.sqrt),
    "sub": float_or({"s": np.subtract, "u": np.subtract, "b": np.subtract, "f": np.subtract}),
    "tanh": approximate(np.tanh),
    "testp": tested,
    "xor": simple({"b": np.bitwise_xor, "p": np.logical_xor}),
}
