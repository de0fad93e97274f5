"""Lowers instructions through which the lanes of a warp exchange values, as `warps` executes them."""

from harness.engines.ptx.flow import results_of, sources_of
from harness.engines.ptx.native.warp_code import NotLowered, WarpCode, element, splat, vector
from harness.engines.ptx.ptx_kernel import Immediate, Operand, Pair, PtxInstruction
from harness.engines.ptx.threads import WARP

_REDUCTIONS = {"add": "add", "and": "and", "or": "or", "xor": "xor"}


def lower_warp(code: WarpCode, instruction: PtxInstruction) -> bool:
    """Write an instruction of a whole warp; False for another instruction.

    Raises:
        NotLowered: it has a form that stays with the interpreter.
    """
    match instruction.root:
        case "shfl":
            _shuffle(code, instruction)
        case "vote":
            _vote(code, instruction)
        case "redux":
            _reduce(code, instruction)
        case _:
            return False
    return True


def _shuffle(code: WarpCode, instruction: PtxInstruction) -> None:
    destination, source, by, clamp = instruction.operands[:4]
    if not isinstance(by, Immediate) or not isinstance(clamp, Immediate):
        raise NotLowered
    sources = [source_lane(instruction.words[2], lane, by.value & 31, clamp.value) for lane in range(WARP)]
    value = code.read(source, "b32")
    order = code.constants("b32", [lane if other is None else other for lane, other in enumerate(sources)])
    result = code.code.value(f"shufflevector {vector('b32')} {value}, {vector('b32')} poison, {vector('b32')} {order}")
    first, second = (destination.first, destination.second) if isinstance(destination, Pair) else (destination, None)
    code.write(first, result, "b32")
    if second is not None:
        valid = code.constants("pred", [int(other is not None) for other in sources])
        code.write(second, valid, "pred")


def source_lane(mode: str, lane: int, delta: int, packed: int) -> int | None:
    """Return the lane that `shfl` reads; None if it is outside the segment."""
    limit, segment = packed & 31, packed >> 8 & 31
    lowest = lane & segment
    highest = lowest | (limit & ~segment)
    match mode:
        case "up":
            return lane - delta if lane - delta >= highest else None
        case "down":
            other = lane + delta
        case "bfly":
            other = lane ^ delta
        case "idx":
            other = lowest | (delta & ~segment)
        case _:
            raise NotLowered
    return other if other <= highest else None


def _members(mask: Operand) -> str:
    """Return the lanes that a constant mask names."""
    if not isinstance(mask, Immediate):
        raise NotLowered
    bits = [mask.value >> lane & 1 for lane in range(WARP)]
    return splat("pred", 1) if all(bits) else f"<{', '.join(f'i1 {bit}' for bit in bits)}>"


def _vote(code: WarpCode, instruction: PtxInstruction) -> None:
    mode = next((word for word in ("ballot", "all", "any", "uni") if word in instruction.words), "")
    destination, source, mask = instruction.operands
    votes = code.read(source, "pred")
    member = code.binary("and", "pred", _members(mask), code.active())
    yes = code.binary("and", "pred", votes, member)
    if mode == "ballot":
        bits = code.code.value(f"bitcast {vector('pred')} {yes} to i{WARP}")
        code.write(destination, code.uniform(bits, "b32"), "b32")
        return
    no = code.any_of(code.binary("and", "pred", code.binary("xor", "pred", votes, splat("pred", 1)), member))
    some = code.any_of(yes)
    none = code.code.value(f"xor i1 {no}, true")
    match mode:
        case "any":
            result = some
        case "all":
            result = none
        case "uni":
            result = code.code.value(f"or i1 {none}, {code.code.value(f'xor i1 {some}, true')}")
        case _:
            raise NotLowered
    code.write(destination, code.uniform(result, "pred"), "pred")


def _reduce(code: WarpCode, instruction: PtxInstruction) -> None:
    """`redux.sync` of integers."""
    kind = instruction.kind
    if kind not in {"b32", "s32", "u32"}:
        raise NotLowered
    operation = next((word for word in (*_REDUCTIONS, "min", "max") if word in instruction.words), "")
    name = _REDUCTIONS.get(operation) or ("s" if kind[0] == "s" else "u") + operation
    destination, source, _ = instruction.operands
    value = code.read(source, kind)
    with code.slow_unless(whole_warp(code), sources_of(instruction), results_of(instruction)):
        result = code.code.call(element(kind), f"llvm.vector.reduce.{name}.v{WARP}i32", (vector(kind), value))
        code.write(destination, code.uniform(result, "b32"), kind)


def whole_warp(code: WarpCode) -> str:
    """Return an i1: True if every lane executes the instruction."""
    return code.all_of(code.active()) if code.is_partial() else "true"
