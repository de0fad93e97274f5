"""Elementwise operations as LLVM IR, with the semantics of `harness.engines.virtual.operations.arith`.

One entry in `RULES` adds an operation.  Nothing is fused or reordered: every operation rounds.
"""

import struct
from collections.abc import Callable, Mapping

import numpy as np

from harness.engines.ttir.ir import Operation
from harness.engines.virtual.native import mathematics
from harness.engines.virtual.native.lane_values import (
    BITS,
    Emit,
    LaneValues,
    as_vector,
    intrinsic_suffix,
    lanewise,
    register,
    vector_type,
)
from harness.engines.virtual.native.llvm_text import Assembly
from harness.engines.virtual.native.rounding import FLOATS, converted, from_integer, resized, rounded, to_integer
from harness.engines.virtual.operations.arith import literal as parse_literal
from harness.errors import CannotExecute

Rule = Callable[["Assembly", Operation, list[LaneValues]], LaneValues]


def literal(value: float, kind: str) -> str:
    """An LLVM literal of type `kind`; floats are written as the bits of the double that equals them.

    MLIR prints the shortest decimal that identifies a float32, such as `0.1`.  LLVM rejects that as a `float`, since
    the double nearest to it is not a float32.
    """
    if kind in FLOATS:
        exact = float(np.float32(value)) if kind == "float" else float(value)
        return f"0x{struct.unpack('>Q', struct.pack('>d', exact))[0]:016X}"
    return str(int(value))


# --- integers ---


def _simple(instruction: str) -> Rule:
    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        return code.value(f"{instruction} {vector_type(kind, width)} {', '.join(names)}")

    def rule(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
        return rounded(code, lanewise(code, operands, emit, operands[0].kind), operation.result_types[0].element)

    return rule


def _sum(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    del operation
    left, right = operands
    steps = [0 if lanes.uniform else lanes.step for lanes in operands]
    # The sum of two ramps is a ramp: then one scalar addition serves all lanes.
    ramps = steps[0] is not None and steps[1] is not None
    if ramps and left.kind != "i1" and not (left.uniform and right.uniform):
        first = code.value(f"add {left.kind} {left.name}, {right.name}")
        return LaneValues(left.kind, first, max(left.width, right.width), (steps[0] or 0) + (steps[1] or 0))
    return lanewise(code, operands, _emit("add"), left.kind)


def _difference(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    del operation
    left, right = operands
    if left.step is not None and right.uniform and left.kind != "i1":
        return LaneValues(left.kind, code.value(f"sub {left.kind} {left.name}, {right.name}"), left.width, left.step)
    return lanewise(code, operands, _emit("sub"), left.kind)


def _product(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    del operation
    for ramp, factor in (operands, operands[::-1]):
        if ramp.step is not None and factor.uniform and factor.name.lstrip("-").isdigit():
            first = code.value(f"mul {ramp.kind} {ramp.name}, {factor.name}")
            return LaneValues(ramp.kind, first, ramp.width, ramp.step * int(factor.name))
    return lanewise(code, operands, _emit("mul"), operands[0].kind)


def _emit(instruction: str) -> Emit:
    return lambda code, kind, width, names: code.value(f"{instruction} {vector_type(kind, width)} {', '.join(names)}")


def _number(number: int, kind: str, width: int) -> str:
    return f"splat ({kind} {number})" if width else str(number)


def _division(instruction: str, *, quotient: bool) -> Rule:
    """Division rounded toward zero; by zero, the quotient is all ones and the remainder the dividend, as on GPUs."""
    signed = instruction.startswith("s")

    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        left, right = names
        vector, flag = vector_type(kind, width), vector_type("i1", width)
        is_zero = code.value(f"icmp eq {vector} {right}, {_number(0, kind, width)}")
        is_minus_one = code.value(f"icmp eq {vector} {right}, {_number(-1, kind, width)}") if signed else "false"
        if width and not signed:
            is_minus_one = "zeroinitializer"
        special = code.value(f"or {flag} {is_zero}, {is_minus_one}")  # -1 too: the CPU traps on min / -1
        safe = code.value(f"select {flag} {special}, {vector} {_number(1, kind, width)}, {vector} {right}")
        result = code.value(f"{instruction} {vector} {left}, {safe}")
        zeros = _number(0, kind, width)
        negated = code.value(f"sub {vector} {zeros}, {left}") if quotient else zeros
        result = code.value(f"select {flag} {is_minus_one}, {vector} {negated}, {vector} {result}")
        by_zero = _number(-1, kind, width) if quotient else left
        return code.value(f"select {flag} {is_zero}, {vector} {by_zero}, {vector} {result}")

    return _same_type(emit)


def _same_type(emit: Emit) -> Rule:
    """A rule whose result has its operands' type and needs no rounding."""

    def rule(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
        del operation
        return lanewise(code, operands, emit, operands[0].kind)

    return rule


def _shift(instruction: str) -> Rule:
    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        left, right = names
        vector, flag = vector_type(kind, width), vector_type("i1", width)
        # LLVM leaves shifts by the width or more undefined.
        small = code.value(f"icmp ult {vector} {right}, {_number(BITS[kind], kind, width)}")
        most = _number(BITS[kind] - 1 if instruction == "ashr" else 0, kind, width)
        safe = code.value(f"select {flag} {small}, {vector} {right}, {vector} {most}")
        result = code.value(f"{instruction} {vector} {left}, {safe}")
        if instruction == "ashr":
            return result
        return code.value(f"select {flag} {small}, {vector} {result}, {vector} {_number(0, kind, width)}")

    return _same_type(emit)


def _compare(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    predicate = operation.keywords[0]
    instruction = "fcmp" if operands[0].kind in FLOATS else "icmp"
    return lanewise(code, operands, _emit(f"{instruction} {predicate}"), "i1")


def _intrinsic(name: str) -> Rule:
    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        vector = vector_type(kind, width)
        return code.call(vector, f"llvm.{name}.{intrinsic_suffix(kind, width)}", *((vector, each) for each in names))

    def rule(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
        return rounded(code, lanewise(code, operands, emit, operands[0].kind), operation.result_types[0].element)

    return rule


def _absolute(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    del operation

    def emit(code: Assembly, kind: str, width: int, names: list[str]) -> str:
        vector = vector_type(kind, width)
        return code.call(vector, f"llvm.abs.{intrinsic_suffix(kind, width)}", (vector, names[0]), ("i1", "false"))

    return lanewise(code, operands, emit, operands[0].kind)


# --- selection and conversion ---


def select(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    """`arith.select` of numbers."""
    del operation
    condition, left, right = operands
    if condition.uniform and left.uniform and right.uniform:
        chosen = code.value(f"select i1 {condition.name}, {left.kind} {left.name}, {left.kind} {right.name}")
        return LaneValues(left.kind, chosen)
    width = max(lanes.width for lanes in operands)
    vector = vector_type(left.kind, width)
    flags = vector_type("i1", width)
    flag = ("i1", condition.name) if condition.uniform else (flags, as_vector(code, condition, width))
    sides = [as_vector(code, lanes, width) for lanes in (left, right)]
    chosen = code.value(f"select {flag[0]} {flag[1]}, {vector} {sides[0]}, {vector} {sides[1]}")
    return LaneValues(left.kind, chosen, width)


def _extend(*, signed: bool) -> Rule:
    return lambda code, operation, operands: resized(
        code, operands[0], register(operation.result_types[0].element), signed=signed
    )


def _clamp(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    value, low, high = operands
    at_least = _intrinsic("maxnum")(code, operation, [value, low])
    result = _intrinsic("minnum")(code, operation, [at_least, high])
    if str(operation.attributes.get("propagateNan", "none")) not in {"all", "65535"}:
        return result
    nan = lanewise(code, [value, value], _emit("fcmp uno"), "i1")
    return select(code, operation, [nan, value, result])


def constant(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    """`arith.constant` with equal elements."""
    del code, operands
    kind = operation.result_types[0]
    text = str(operation.attributes["value"])
    if text.startswith("dense<"):
        text = text[len("dense<") : -1].strip()
        if text.startswith("["):
            raise CannotExecute("a dense constant in native code")
    target = register(kind.element)
    return LaneValues(target, literal(parse_literal(text, kind), target))


def negative(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    """`arith.negf`."""
    del operation
    return lanewise(code, operands, _emit("fneg"), operands[0].kind)


def bits_as(code: Assembly, operation: Operation, operands: list[LaneValues]) -> LaneValues:
    """`arith.bitcast` and `tt.bitcast` of numbers whose carrier has the width of their type."""
    source, target = operation.operand_types[0].element, operation.result_types[0].element
    if {source, target} & {"bf16", "f16", "i1"}:
        raise CannotExecute("a bitcast of narrow elements in native code")
    kind = register(target)

    def emit(code: Assembly, own: str, width: int, names: list[str]) -> str:
        return code.value(f"bitcast {vector_type(own, width)} {names[0]} to {vector_type(kind, width)}")

    return operands[0] if kind == operands[0].kind else lanewise(code, operands, emit, kind)


RULES: Mapping[str, Rule] = {
    "arith.constant": constant,
    "arith.select": select,
    "arith.cmpi": _compare,
    "arith.cmpf": _compare,
    "arith.addi": _sum,
    "arith.subi": _difference,
    "arith.muli": _product,
    "arith.divsi": _division("sdiv", quotient=True),
    "arith.remsi": _division("srem", quotient=False),
    "arith.divui": _division("udiv", quotient=True),
    "arith.remui": _division("urem", quotient=False),
    "arith.andi": _simple("and"),
    "arith.ori": _simple("or"),
    "arith.xori": _simple("xor"),
    "arith.shli": _shift("shl"),
    "arith.shrsi": _shift("ashr"),
    "arith.shrui": _shift("lshr"),
    "arith.minsi": _intrinsic("smin"),
    "arith.maxsi": _intrinsic("smax"),
    "arith.minui": _intrinsic("umin"),
    "arith.maxui": _intrinsic("umax"),
    "arith.extsi": _extend(signed=True),
    "arith.extui": _extend(signed=False),
    "arith.trunci": lambda code, operation, operands: converted(code, operation, operands[0]),
    "arith.index_cast": lambda code, operation, operands: converted(code, operation, operands[0]),
    "arith.extf": lambda code, operation, operands: converted(code, operation, operands[0]),
    "arith.truncf": lambda code, operation, operands: converted(code, operation, operands[0]),
    "tt.fp_to_fp": lambda code, operation, operands: converted(code, operation, operands[0]),
    "arith.sitofp": lambda code, operation, operands: from_integer(
        code, operands[0], operation.result_types[0].element, signed=True
    ),
    "arith.uitofp": lambda code, operation, operands: from_integer(
        code, operands[0], operation.result_types[0].element, signed=False
    ),
    "arith.fptosi": lambda code, operation, operands: to_integer(code, operands[0], operation, signed=True),
    "arith.fptoui": lambda code, operation, operands: to_integer(code, operands[0], operation, signed=False),
    "arith.bitcast": bits_as,
    "tt.bitcast": bits_as,
    "arith.addf": _simple("fadd"),
    "arith.subf": _simple("fsub"),
    "arith.mulf": _simple("fmul"),
    "arith.divf": _simple("fdiv"),
    "tt.precise_divf": _simple("fdiv"),
    "arith.remf": mathematics.library_function("fmod"),
    "arith.negf": negative,
    "arith.maxnumf": _intrinsic("maxnum"),
    "arith.minnumf": _intrinsic("minnum"),
    "arith.maximumf": _intrinsic("maximum"),
    "arith.minimumf": _intrinsic("minimum"),
    "tt.clampf": _clamp,
    "math.absf": _intrinsic("fabs"),
    "math.absi": _absolute,
    "math.sqrt": mathematics.flushing(_intrinsic("sqrt")),
    "tt.precise_sqrt": _intrinsic("sqrt"),
    "math.floor": mathematics.flushing(_intrinsic("floor")),
    "math.ceil": mathematics.flushing(_intrinsic("ceil")),
    "math.roundeven": _intrinsic("roundeven"),
    **{f"math.{name}": mathematics.library_function(name) for name in ("exp", "log", "log2", "cos", "tanh")},
    **{f"math.{name}": mathematics.flushing(mathematics.library_function(name)) for name in ("exp2", "sin", "erf")},
    "math.rsqrt": mathematics.flushing(mathematics.rsqrt),
    "math.fma": mathematics.multiply_add,
    "tt.extern_elementwise": mathematics.external,
}

COSTS: Mapping[str, int] = {
    **dict.fromkeys((name for name in RULES if name.startswith("math.")), 40),
    **dict.fromkeys(("arith.divsi", "arith.remsi", "arith.divui", "arith.remui", "arith.divf", "math.sqrt"), 12),
    "math.absf": 1,
    "math.absi": 1,
    "math.floor": 1,
    "math.ceil": 1,
    "math.roundeven": 1,
    "arith.remf": 40,
    "tt.extern_elementwise": 40,
    "arith.constant": 0,
}
"""The cost of computing one lane again, in simple instructions; 1 for operations not listed."""
