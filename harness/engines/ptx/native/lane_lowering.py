"""Lowers instructions that each thread executes on its own registers, as `lanes` executes them.

What is not lowered stays with the interpreter: packed and narrow arithmetic, directed rounding, saturation, carries,
and functions such as `ex2`, of which NumPy's float64 functions are the definition.
"""

from collections.abc import Callable, Mapping

from harness.engines.ptx.memories import WINDOWS
from harness.engines.ptx.native.warp_code import NotLowered, WarpCode, bits_of, splat, vector
from harness.engines.ptx.ptx_kernel import Immediate, Operand, Pair, PtxInstruction, RegisterVector

_SCALARS = {"pred", "f32", "f64", *(f"{sign}{bits}" for sign in "bsu" for bits in (8, 16, 32, 64))}
_NOT_LOWERED = frozenset({"sat", "satfinite", "cc", "rz", "rm", "rp", "relu", "xorsign", "rs"})
_CANONICAL_NAN = {"f32": 0x7FFFFFFF, "f64": 0x7FFFFFFFFFFFFFFF}

Lower = Callable[[WarpCode, PtxInstruction], None]


def lower_lanes(code: WarpCode, instruction: PtxInstruction) -> bool:
    """Write an instruction of one thread; False for another instruction.

    Raises:
        NotLowered: it has a form that stays with the interpreter.
    """
    lower = _LOWERED.get(instruction.root)
    if lower is None:
        return False
    if not _NOT_LOWERED.isdisjoint(instruction.words):
        raise NotLowered
    lower(code, instruction)
    return True


def _kind(instruction: PtxInstruction, letters: str = "sufbp") -> str:
    kind = instruction.kind
    if kind not in _SCALARS or kind[0] not in letters:
        raise NotLowered
    return kind


def _flushes(instruction: PtxInstruction, kind: str) -> bool:
    return "ftz" in instruction.words and kind == "f32"


def flushed(code: WarpCode, value: str) -> str:
    """Replace subnormal float32 numbers by zeros of their sign."""
    raw = code.cast("bitcast", "f32", value, "b32")
    exponent = code.binary("and", "b32", raw, splat("b32", 0x7F800000))
    sign = code.binary("and", "b32", raw, splat("b32", 0x80000000))
    is_small = code.compare("eq", "b32", exponent, "zeroinitializer")
    return code.cast("bitcast", "b32", code.select(is_small, "b32", sign, raw), "f32")


def _operands(code: WarpCode, instruction: PtxInstruction, kind: str, first: int = 1) -> list[str]:
    values = [code.read(operand, kind) for operand in instruction.operands[first:]]
    return [flushed(code, value) for value in values] if _flushes(instruction, kind) else values


def _write_number(code: WarpCode, instruction: PtxInstruction, value: str, kind: str) -> None:
    code.write(instruction.operands[0], flushed(code, value) if _flushes(instruction, kind) else value, kind)


def _binary(integer: str, floating: str = "", letters: str = "sub") -> Lower:
    def lower(code: WarpCode, instruction: PtxInstruction) -> None:
        kind = _kind(instruction, letters + ("f" if floating else ""))
        left, right = _operands(code, instruction, kind)
        operation = floating if kind[0] == "f" else integer
        _write_number(code, instruction, code.binary(operation, kind, left, right), kind)

    return lower


def _divide(code: WarpCode, instruction: PtxInstruction) -> None:
    kind = _kind(instruction, "suf")
    left, right = _operands(code, instruction, kind)
    if kind[0] != "f":
        code.write(instruction.operands[0], _quotient(code, kind, left, right), kind)
        return
    result = code.binary("fdiv", kind, left, right)
    if kind == "f32" and not {"full", "approx"}.isdisjoint(instruction.words):
        result = _by_reciprocal(code, left, right, result)
    _write_number(code, instruction, result, kind)


def _by_reciprocal(code: WarpCode, left: str, right: str, quotient: str) -> str:
    """Return the product with a rounded reciprocal, where that is a normal number."""
    reciprocal = code.binary("fdiv", "f32", "splat (float 1.0)", right)
    size = code.cast("bitcast", "f32", code.intrinsic("fabs", "f32", reciprocal), "b32")
    above = code.compare("uge", "b32", size, splat("b32", 0x00800000))
    below = code.compare("ult", "b32", size, splat("b32", 0x7F800000))
    is_ordinary = code.binary("and", "pred", above, below)
    return code.select(is_ordinary, "f32", code.binary("fmul", "f32", left, reciprocal), quotient)


def _quotient(code: WarpCode, kind: str, left: str, right: str) -> str:
    """Return an integer quotient.  By zero it has all bits set; LLVM has no division by zero, or that overflows."""
    ones, is_zero = splat(kind, -1), code.compare("eq", kind, right, "zeroinitializer")
    safe = code.select(is_zero, kind, splat(kind, 1), right)
    if kind[0] == "u":
        quotient = code.binary("udiv", kind, left, safe)
    else:
        is_minus = code.compare("eq", kind, right, ones)
        safe = code.select(is_minus, kind, splat(kind, 1), safe)
        quotient = code.binary("sdiv", kind, left, safe)
        quotient = code.select(is_minus, kind, code.binary("sub", kind, "zeroinitializer", left), quotient)
    return code.select(is_zero, kind, ones, quotient)


def _remainder(code: WarpCode, instruction: PtxInstruction) -> None:
    kind = _kind(instruction, "su")
    left, right = _operands(code, instruction, kind)
    product = code.binary("mul", kind, _quotient(code, kind, left, right), right)
    # A product with the divisor zero is zero, so the remainder is the dividend.
    code.write(instruction.operands[0], code.binary("sub", kind, left, product), kind)


def _multiply(code: WarpCode, instruction: PtxInstruction) -> None:
    kind = _kind(instruction, "suf")
    if kind[0] == "f":
        if instruction.root == "mad":
            _fma(code, instruction)
        else:
            _binary("mul", "fmul")(code, instruction)
        return
    bits, words = bits_of(kind), instruction.words
    part = next((word for word in ("lo", "hi", "wide") if word in words), "lo")
    if part != "lo" and bits > 32:
        raise NotLowered
    target, *sources = instruction.operands
    left, right = (code.read(operand, kind) for operand in sources[:2])
    out = kind
    if part == "lo":
        product = code.binary("mul", kind, left, right)
    else:
        wide, signed = f"{kind[0]}{2 * bits}", kind[0] == "s"
        factors = [code.resized(value, kind, wide, signed=signed) for value in (left, right)]
        product = code.binary("mul", wide, *factors)
        if part == "hi":
            product = code.resized(code.binary("lshr", wide, product, splat(wide, bits)), wide, kind)
        else:
            out = wide
    for addend in sources[2:]:
        product = code.binary("add", out, product, code.read(addend, out))
    code.write(target, product, out)


def _fma(code: WarpCode, instruction: PtxInstruction) -> None:
    if instruction.kind != "f32" or "rn" not in instruction.words:
        raise NotLowered
    values = _operands(code, instruction, "f32")
    _write_number(code, instruction, code.intrinsic("fma", "f32", *values), "f32")


def _extreme(code: WarpCode, instruction: PtxInstruction) -> None:
    kind, words = _kind(instruction, "suf"), instruction.words
    largest = instruction.root == "max"
    values = [code.read(operand, kind) for operand in instruction.operands[1:]]
    if kind[0] != "f":
        if len(values) != 2:
            raise NotLowered
        name = kind[0] + instruction.root
        code.write(instruction.operands[0], code.intrinsic(name, kind, *values), kind)
        return
    if "abs" in words:
        values = [code.intrinsic("fabs", kind, value) for value in values]
    if _flushes(instruction, kind):
        values = [flushed(code, value) for value in values]
    result = values[0]
    for value in values[1:]:
        result = _better(code, kind, (result, value), largest=largest, keeps_nan="NaN" in words)
    raw = f"b{bits_of(kind)}"
    canonical = code.cast("bitcast", raw, splat(raw, _CANONICAL_NAN[kind]), kind)
    is_nan = code.compare("uno", kind, result, result)
    code.write(instruction.operands[0], code.select(is_nan, kind, canonical, result), kind)


def _better(code: WarpCode, kind: str, operands: tuple[str, str], *, largest: bool, keeps_nan: bool) -> str:
    left, right = operands
    raw = f"b{bits_of(kind)}"
    bits = [code.cast("bitcast", kind, value, raw) for value in (left, right)]
    # Equal numbers differ at most in the sign of a zero.
    equal = code.cast("bitcast", raw, code.binary("and" if largest else "or", raw, *bits), kind)
    result = code.select(code.compare("ogt" if largest else "olt", kind, left, right), kind, left, right)
    result = code.select(code.compare("oeq", kind, left, right), kind, equal, result)
    lost = left if keeps_nan else right
    is_nan = code.compare("uno", kind, lost, lost)
    return code.select(is_nan, kind, left, result)


def _unary(integer: str, floating: str = "") -> Lower:
    """`neg`, `not` and `abs`."""

    def lower(code: WarpCode, instruction: PtxInstruction) -> None:
        kind = _kind(instruction)
        (value,) = _operands(code, instruction, kind)
        match integer if kind[0] != "f" else floating:
            case "neg":
                result = code.binary("sub", kind, "zeroinitializer", value)
            case "not":
                result = code.binary("xor", kind, value, splat(kind, -1))
            case "abs" if kind[0] == "s":
                result = code.code.call(
                    vector(kind), f"llvm.abs.v32i{bits_of(kind)}", (vector(kind), value), ("i1", "false")
                )
            case "fneg":
                result = code.code.value(f"fneg {vector(kind)} {value}")
            case "fabs":
                result = code.intrinsic("fabs", kind, value)
            case _:
                raise NotLowered
        _write_number(code, instruction, result, kind)

    return lower


def _inverse(code: WarpCode, instruction: PtxInstruction) -> None:
    """`rcp`, `sqrt` and `rsqrt`: computed in float64 and rounded once."""
    kind = _kind(instruction, "f")
    (value,) = _operands(code, instruction, kind)
    wide = code.cast("fpext", kind, value, "f64") if kind == "f32" else value
    if instruction.root != "rcp":
        wide = code.intrinsic("sqrt", "f64", wide)
    if instruction.root != "sqrt":
        wide = code.binary("fdiv", "f64", "splat (double 1.0)", wide)
    result = code.cast("fptrunc", "f64", wide, kind) if kind == "f32" else wide
    _write_number(code, instruction, result, kind)


# --- bits ------------------------------------------------------------------------------------------------------------


def _shift(code: WarpCode, instruction: PtxInstruction) -> None:
    kind = _kind(instruction, "sub")
    bits, left = bits_of(kind), instruction.root == "shl"
    value, by = code.read(instruction.operands[1], kind), code.read(instruction.operands[2], "u32")
    inside = code.resized(code.intrinsic("umin", "u32", by, splat("u32", bits - 1)), "u32", kind)
    if kind[0] == "s" and not left:
        code.write(instruction.operands[0], code.binary("ashr", kind, value, inside), kind)
        return
    shifted = code.binary("shl" if left else "lshr", kind, value, inside)
    is_inside = code.compare("ult", "u32", by, splat("u32", bits))
    # A shift to the left of a signed number that goes into a wider register extends its sign.
    code.write(instruction.operands[0], code.select(is_inside, kind, shifted, "zeroinitializer"), kind)


def _low_byte(code: WarpCode, operand: Operand) -> str:
    return code.binary("and", "u32", code.read(operand, "u32"), splat("u32", 255))


def _extract(code: WarpCode, instruction: PtxInstruction) -> None:
    """`bfe`: the field is moved to the top, then down again; the second shift extends the sign."""
    kind = _kind(instruction, "su")
    bits = bits_of(kind)
    value = code.read(instruction.operands[1], kind)
    first, count = (_low_byte(code, operand) for operand in instruction.operands[2:4])
    whole, zero = splat("u32", bits), "zeroinitializer"
    last = code.binary("add", "u32", first, count)
    end = code.intrinsic("umin", "u32", last, whole)
    taken = code.binary("sub", "u32", end, code.intrinsic("umin", "u32", first, end))
    up = code.binary("sub", "u32", whole, end)
    down = code.binary("sub", "u32", whole, taken)
    most = splat("u32", bits - 1)

    def amount(number: str) -> str:
        return code.resized(code.intrinsic("umin", "u32", number, most), "u32", kind)

    # NumPy's shift by the whole width gives zero.
    raised = code.binary("shl", kind, value, amount(up))
    raised = code.select(code.compare("ult", "u32", up, whole), kind, raised, zero)
    field = code.binary("ashr" if kind[0] == "s" else "lshr", kind, raised, amount(down))
    if kind[0] == "u":
        empty = code.compare("eq", "u32", taken, zero)
        code.write(instruction.operands[0], code.select(empty, kind, zero, field), kind)
        return
    # Beyond the top the field is filled with the sign of the number.
    beyond = code.compare("ugt", "u32", last, whole)
    field = code.select(beyond, kind, code.binary("ashr", kind, value, amount(first)), field)
    sign = code.binary("ashr", kind, value, splat(kind, bits - 1))
    field = code.select(code.compare("uge", "u32", first, whole), kind, sign, field)
    empty = code.compare("eq", "u32", count, zero)
    code.write(instruction.operands[0], code.select(empty, kind, zero, field), kind)


def _insert(code: WarpCode, instruction: PtxInstruction) -> None:
    """`bfi`: the low bits of the first number, put into the second."""
    bits = bits_of(_kind(instruction, "b"))
    kind = f"u{bits}"
    field, into = (code.read(operand, kind) for operand in instruction.operands[1:3])
    first, count = (_low_byte(code, operand) for operand in instruction.operands[3:5])
    most, whole = splat("u32", bits - 1), splat("u32", bits)
    length, inside = (
        code.resized(code.intrinsic("umin", "u32", number, most), "u32", kind) for number in (count, first)
    )
    ones = code.binary("sub", kind, code.binary("shl", kind, splat(kind, 1), length), splat(kind, 1))
    ones = code.select(code.compare("uge", "u32", count, whole), kind, splat(kind, -1), ones)
    mask = code.binary("shl", kind, ones, inside)
    mask = code.select(code.compare("uge", "u32", first, whole), kind, "zeroinitializer", mask)
    kept = code.binary("and", kind, into, code.binary("xor", kind, mask, splat(kind, -1)))
    put = code.binary("and", kind, code.binary("shl", kind, field, inside), mask)
    code.write(instruction.operands[0], code.binary("or", kind, kept, put), kind)


def _counted(code: WarpCode, instruction: PtxInstruction) -> None:
    """`clz`, `popc` and `bfind`: the result is a 32-bit number."""
    kind = _kind(instruction, "sub")
    value = code.read(instruction.operands[1], kind)
    if instruction.root == "popc":
        result = code.intrinsic("ctpop", kind, value)
    else:
        if "shiftamt" in instruction.words:
            raise NotLowered
        if instruction.root == "bfind" and kind[0] == "s":
            value = code.binary("xor", kind, value, code.binary("ashr", kind, value, splat(kind, bits_of(kind) - 1)))
        result = code.code.call(vector(kind), f"llvm.ctlz.v32i{bits_of(kind)}", (vector(kind), value), ("i1", "false"))
        if instruction.root == "bfind":
            # Without a bit there are as many zeros as bits, and the result is -1.
            result = code.binary("sub", kind, splat(kind, bits_of(kind) - 1), result)
    code.write(instruction.operands[0], code.resized(result, kind, "u32", signed=True), "u32")


def _reverse(code: WarpCode, instruction: PtxInstruction) -> None:
    kind = _kind(instruction, "b")
    code.write(
        instruction.operands[0], code.intrinsic("bitreverse", kind, code.read(instruction.operands[1], kind)), kind
    )


def _lookup(code: WarpCode, instruction: PtxInstruction) -> None:
    """`lop3`: any function of three bits, as the `or` of the rows of its truth table."""
    if instruction.words[1:] != ("b32",):
        raise NotLowered
    *sources, table = instruction.operands[1:]
    if not isinstance(table, Immediate):
        raise NotLowered
    values = [code.read(source, "b32") for source in sources]
    opposites = [code.binary("xor", "b32", value, splat("b32", -1)) for value in values]
    result = "zeroinitializer"
    for row in range(8):
        if table.value >> row & 1:
            chosen = [(values if row & bit else opposites)[at] for at, bit in enumerate((4, 2, 1))]
            term = code.binary("and", "b32", code.binary("and", "b32", *chosen[:2]), chosen[2])
            result = term if result == "zeroinitializer" else code.binary("or", "b32", result, term)
    code.write(instruction.operands[0], result, "b32")


def _permute(code: WarpCode, instruction: PtxInstruction) -> None:
    """`prmt`: picks four of eight bytes, or their replicated signs."""
    if instruction.words[1:] != ("b32",):
        raise NotLowered
    low, high, choice = (code.read(operand, "b32") for operand in instruction.operands[1:4])
    upper = code.binary("shl", "b64", code.resized(high, "b32", "b64"), splat("b64", 32))
    pair = code.binary("or", "b64", upper, code.resized(low, "b32", "b64"))
    result = "zeroinitializer"
    for at in range(4):
        selector = code.binary("lshr", "b32", choice, splat("b32", 4 * at))
        place = code.binary("shl", "b32", code.binary("and", "b32", selector, splat("b32", 7)), splat("b32", 3))
        byte = code.resized(code.binary("lshr", "b64", pair, code.resized(place, "b32", "b64")), "b64", "b32")
        byte = code.binary("and", "b32", byte, splat("b32", 255))
        sign = code.binary("lshr", "b32", byte, splat("b32", 7))
        sign = code.binary("mul", "b32", sign, splat("b32", 255))
        replicates = code.compare("ne", "b32", code.binary("and", "b32", selector, splat("b32", 8)), "zeroinitializer")
        byte = code.select(replicates, "b32", sign, byte)
        result = code.binary("or", "b32", result, code.binary("shl", "b32", byte, splat("b32", 8 * at)))
    code.write(instruction.operands[0], result, "b32")


def _funnel(code: WarpCode, instruction: PtxInstruction) -> None:
    """`shf`: shifts a pair of registers, of which the second is the upper one, and keeps one of the two."""
    if instruction.kind != "b32":
        raise NotLowered
    lower, upper, amount = (
        code.resized(code.read(operand, "b32"), "b32", "b64") for operand in instruction.operands[1:4]
    )
    if "wrap" in instruction.words:
        amount = code.binary("and", "b64", amount, splat("b64", 31))
    else:
        amount = code.intrinsic("umin", "b64", amount, splat("b64", 32))
    pair = code.binary("or", "b64", code.binary("shl", "b64", upper, splat("b64", 32)), lower)
    if "l" in instruction.words:
        moved = code.binary("lshr", "b64", code.binary("shl", "b64", pair, amount), splat("b64", 32))
    else:
        moved = code.binary("lshr", "b64", pair, amount)
    code.write(instruction.operands[0], code.resized(moved, "b64", "b32"), "b32")


# --- comparisons and choices -----------------------------------------------------------------------------------------

_SAME_NAMES = ("eq", "ne", "lt", "le", "gt", "ge")
_ORDERED = {**{name: name for name in _SAME_NAMES}, "lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def _predicate(word: str, kind: str) -> str:
    """Return LLVM's name of a comparison."""
    if kind[0] == "f":
        if word in {"num", "nan"}:
            return {"num": "ord", "nan": "uno"}[word]
        unordered = word.endswith("u") and word[:-1] in _ORDERED
        return ("u" if unordered else "o") + _ORDERED[word[:-1] if unordered else word]
    if word in {"eq", "ne"}:
        return word
    return ("s" if kind[0] == "s" else "u") + _ORDERED[word]


def _compare(code: WarpCode, instruction: PtxInstruction) -> None:
    """`setp`, with the predicate that its result may be combined with."""
    kind, words = _kind(instruction, "subf"), instruction.words
    values = [code.read(operand, kind) for operand in instruction.operands[1:3]]
    if _flushes(instruction, kind):
        values = [flushed(code, value) for value in values]
    result = code.compare(_predicate(words[1], kind), kind, *values)
    results = [result]
    destination = instruction.operands[0]
    targets: tuple[Operand, ...] = (destination,)
    if isinstance(destination, Pair):
        targets = destination.first, destination.second
        results.append(code.binary("xor", "pred", result, splat("pred", 1)))
    if combine := next((word for word in ("and", "or", "xor") if word in words[2:]), ""):
        other = code.read(instruction.operands[3], "pred")
        results = [code.binary(combine, "pred", each, other) for each in results]
    for target, each in zip(targets, results, strict=True):
        code.write(target, each, "pred")


def _select(code: WarpCode, instruction: PtxInstruction) -> None:
    kind = f"b{bits_of(_kind(instruction, 'subf'))}"
    left, right = (code.read(operand, kind) for operand in instruction.operands[1:3])
    chosen = code.read(instruction.operands[3], "pred")
    code.write(instruction.operands[0], code.select(chosen, kind, left, right), kind)


def _copy_sign(code: WarpCode, instruction: PtxInstruction) -> None:
    kind = _kind(instruction, "f")
    sign, value = (code.read(operand, kind) for operand in instruction.operands[1:3])
    code.write(instruction.operands[0], code.intrinsic("copysign", kind, value, sign), kind)


# --- moves and conversions -------------------------------------------------------------------------------------------


def _move(code: WarpCode, instruction: PtxInstruction) -> None:
    """`mov`, which also packs registers into a wider one and unpacks them."""
    destination, source = instruction.operands
    if instruction.kind == "pred":
        code.write(destination, code.read(source, "pred"), "pred")
        return
    if instruction.kind not in _SCALARS:
        raise NotLowered
    kind = f"b{bits_of(instruction.kind)}"
    value = joined(code, source, kind) if isinstance(source, RegisterVector) else code.read(source, kind)
    if not isinstance(destination, RegisterVector):
        code.write(destination, value, kind)
        return
    each = f"b{bits_of(kind) // len(destination.parts)}"
    parts = [
        code.resized(code.binary("lshr", kind, value, splat(kind, at * bits_of(each))), kind, each)
        for at in range(len(destination.parts))
    ]
    for part, number in zip(destination.parts, parts, strict=True):
        code.write(part, number, each)


def joined(code: WarpCode, source: RegisterVector, kind: str) -> str:
    """Return several registers as one, the first lowest."""
    each = f"b{bits_of(kind) // len(source.parts)}"
    result = "zeroinitializer"
    for at, part in enumerate(source.parts):
        value = code.resized(code.read(part, each), each, kind)
        value = value if not at else code.binary("shl", kind, value, splat(kind, at * bits_of(each)))
        result = value if not at else code.binary("or", kind, result, value)
    return result


def _to_address(code: WarpCode, instruction: PtxInstruction) -> None:
    """`cvta`: a generic address to one of a space, or back."""
    kind = f"b{bits_of(instruction.kind)}"
    value = code.read(instruction.operands[1], kind)
    space = next((word.split("::")[0] for word in instruction.words if word.split("::")[0] in WINDOWS), "")
    if space and kind != "b64":
        raise NotLowered
    if space:
        operation = "sub" if "to" in instruction.words else "add"
        value = code.binary(operation, kind, value, splat(kind, WINDOWS[space]))
    code.write(instruction.operands[0], value, kind)


_ROUNDED = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def _convert(code: WarpCode, instruction: PtxInstruction) -> None:
    target, source = instruction.words[-2:]
    destination, *sources = instruction.operands
    if target not in _SCALARS or source not in _SCALARS or len(sources) > 1:
        _convert_narrow(code, instruction)
        return
    value = code.read(sources[0], source)
    if _flushes(instruction, source):
        value = flushed(code, value)
    for word, name in _ROUNDED.items():
        if word in instruction.words and source[0] == "f":
            value = code.intrinsic(name, source, value)
    result = _converted(code, value, source, target)
    if _flushes(instruction, target):
        result = flushed(code, result)
    code.write(destination, result, target)


def _converted(code: WarpCode, value: str, source: str, target: str) -> str:
    match source[0] == "f", target[0] == "f":
        case False, False:
            return code.resized(value, source, target, signed=source[0] == "s")
        case False, True:
            return code.cast("sitofp" if source[0] == "s" else "uitofp", source, value, target)
        case True, False:
            name = "fptosi" if target[0] == "s" else "fptoui"
            suffix = f"v32i{bits_of(target)}.v32f{bits_of(source)}"
            return code.code.call(vector(target), f"llvm.{name}.sat.{suffix}", (vector(source), value))
        case _:
            have, want = bits_of(source), bits_of(target)
            if have == want:
                return value
            return code.cast("fptrunc" if want < have else "fpext", source, value, target)


def _convert_narrow(code: WarpCode, instruction: PtxInstruction) -> None:
    """Conversions between float32 and float16 or bfloat16, and of two float32 to a packed register."""
    target, source = instruction.words[-2:]
    words = set(instruction.words[1:-2])
    if source in {"f16", "bf16"} and target == "f32" and len(instruction.operands) == 2 and not words:
        raw = code.read(instruction.operands[1], "u16")
        if source == "bf16":
            wide = code.binary("shl", "u32", code.resized(raw, "u16", "u32"), splat("u32", 16))
            code.write(instruction.operands[0], wide, "u32")
        else:
            half = code.cast("bitcast", "u16", raw, "f16")
            code.write(instruction.operands[0], code.cast("fpext", "f16", half, "f32"), "f32")
        return
    if source != "f32" or target not in {"f16", "bf16", "f16x2", "bf16x2"} or words != {"rn"}:
        raise NotLowered
    narrow = _to_bfloat if target.startswith("bf16") else _to_half
    halves = [narrow(code, code.read(operand, "f32")) for operand in instruction.operands[1:]]
    if len(halves) != (2 if target.endswith("x2") else 1):
        raise NotLowered
    if len(halves) == 1:
        code.write(instruction.operands[0], halves[0], "u16")
        return
    upper, lower = (code.resized(half, "u16", "u32") for half in halves)
    packed = code.binary("or", "u32", code.binary("shl", "u32", upper, splat("u32", 16)), lower)
    code.write(instruction.operands[0], packed, "u32")


def _to_half(code: WarpCode, value: str) -> str:
    return code.cast("bitcast", "f16", code.cast("fptrunc", "f32", value, "f16"), "u16")


def _to_bfloat(code: WarpCode, value: str) -> str:
    """Round to nearest, ties to even; a NaN is truncated and made quiet."""
    raw = code.cast("bitcast", "f32", value, "u32")
    upper = code.binary("lshr", "u32", raw, splat("u32", 16))
    odd = code.binary("and", "u32", upper, splat("u32", 1))
    added = code.binary("add", "u32", raw, code.binary("add", "u32", odd, splat("u32", 0x7FFF)))
    nearest = code.binary("lshr", "u32", added, splat("u32", 16))
    quiet = code.binary("or", "u32", upper, splat("u32", 0x40))
    chosen = code.select(code.compare("uno", "f32", value, value), "u32", quiet, nearest)
    return code.resized(chosen, "u32", "u16")


_LOWERED: Mapping[str, Lower] = {
    "abs": _unary("abs", "fabs"),
    "add": _binary("add", "fadd"),
    "and": _binary("and", letters="bp"),
    "bfe": _extract,
    "bfi": _insert,
    "bfind": _counted,
    "brev": _reverse,
    "clz": _counted,
    "copysign": _copy_sign,
    "cvt": _convert,
    "cvta": _to_address,
    "div": _divide,
    "fma": _fma,
    "lop3": _lookup,
    "mad": _multiply,
    "max": _extreme,
    "min": _extreme,
    "mov": _move,
    "mul": _multiply,
    "neg": _unary("neg", "fneg"),
    "not": _unary("not"),
    "or": _binary("or", letters="bp"),
    "popc": _counted,
    "prmt": _permute,
    "rcp": _inverse,
    "rem": _remainder,
    "rsqrt": _inverse,
    "selp": _select,
    "setp": _compare,
    "shf": _funnel,
    "shl": _shift,
    "shr": _shift,
    "sqrt": _inverse,
    "sub": _binary("sub", "fsub"),
    "xor": _binary("xor", letters="bp"),
}
