"""The PTX instructions that inline assembly of Triton kernels uses, as functions of their sources' bits.

Approximate instructions such as `ex2.approx` are computed in float64 and rounded once; NVIDIA GPUs differ from that by
a few units in the last place.  `.ftz` flushes subnormal inputs and results to zero.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.engines.virtual.numbers.elements import (
    Array,
    carrier,
    decode,
    encode,
    flushed,
    rounded,
    storage,
    toward_zero,
)
from harness.errors import CannotExecute

_UNSIGNED: dict[int, type[Any]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_FLOATS = {
    "f16": "f16",
    "bf16": "bf16",
    "f32": "f32",
    "f64": "f64",
    "tf32": "f32",
    "e4m3": "f8E4M3FN",
    "e5m2": "f8E5M2",
}
_TYPE = re.compile(r"(?:[bsu](?:8|16|32|64)|f16|bf16|f32|tf32|f64|e4m3|e5m2|e2m1|ue8m0|pred)(?:x2|x4)?$")
_E2M1_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
"""The four-bit floats without their sign, by code."""


def bits_dtype(bits: int) -> type[Any]:
    """The unsigned NumPy type of a register of `bits` bits."""
    return _UNSIGNED[max(8, bits)]


@dataclass(frozen=True, slots=True)
class Opcode:
    """An opcode such as `cvt.rn.satfinite.e4m3x2.f32`, parsed."""

    name: str
    types: tuple[str, ...]
    words: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> "Opcode":
        name, *parts = text.split(".")
        return cls(
            name,
            tuple(part for part in parts if _TYPE.match(part)),
            tuple(part for part in parts if not _TYPE.match(part)),
        )

    @property
    def kind(self) -> str:
        """The type that the instruction computes in: the last one named."""
        return self.types[-1] if self.types else "b32"

    def source_bits(self, at: int) -> int:
        """The width of source number `at`."""
        if self.name == "selp" and at == 2:  # a predicate
            return 8
        if self.name in {"shl", "shr"} and at == 1:
            return 32
        if self.name == "mad" and at == 2 and "wide" in self.words:
            return 2 * width(self.kind)
        return width(self.kind)


def width(kind: str) -> int:
    """The width in bits of a type, all its parts together."""
    element_name, count = split_packed(kind)
    return count * {"e4m3": 8, "e5m2": 8, "ue8m0": 8, "e2m1": 4, "pred": 8, "tf32": 32}.get(
        element_name, int(re.sub(r"\D", "", element_name) or 0)
    )


def split_packed(kind: str) -> tuple[str, int]:
    """Split a packed type: `f16x2` into `f16` and 2."""
    element_name, _, count = kind.partition("x")
    return element_name, int(count or 1)


def parts_of(bits: Array, kind: str) -> Array:
    """The numbers in a register, one column for each packed part, the lowest first."""
    element_name, count = split_packed(kind)
    each = width(element_name)
    columns = np.stack([(bits >> bits.dtype.type(at * each)).astype(bits_dtype(each)) for at in range(count)], axis=-1)
    if element_name in _FLOATS:
        element = _FLOATS[element_name]
        return decode(columns.view(storage(element)), element)
    if element_name == "e2m1":
        return (_E2M1_VALUES[columns & 7] * np.where(columns & 8, -1, 1)).astype(np.float32)
    if element_name == "ue8m0":
        return np.where(columns == 0xFF, np.nan, np.ldexp(1.0, columns.astype(np.int32) - 127)).astype(np.float32)
    return columns.view(f"i{each // 8}") if element_name.startswith("s") else columns


def register_of(values: Array, kind: str) -> Array:
    """The inverse of `parts_of`, for numbers that the type can hold."""
    element_name, count = split_packed(kind)
    each, whole = width(element_name), bits_dtype(width(kind))
    if element_name in _FLOATS:
        element = _FLOATS[element_name]
        raw = encode(np.ascontiguousarray(values.astype(carrier(element))), element)
    else:
        raw = values.astype(f"i{each // 8}") if element_name.startswith("s") else values.astype(bits_dtype(each))
    columns = np.ascontiguousarray(raw).view(bits_dtype(each)).astype(whole)
    result = np.zeros(columns.shape[:-1], whole)
    for at in range(count):
        result |= columns[..., at] << whole(at * each)
    return result


Compute = Callable[..., Array]
Run = Callable[[Opcode, Sequence[Array]], Array]
RunSeveral = Callable[[Opcode, Sequence[Array]], "Array | Sequence[Array]"]


def _flushed(opcode: Opcode, values: Array) -> Array:
    return flushed(values) if "ftz" in opcode.words else values


def arithmetic(compute: Compute) -> Run:
    """Return an instruction on numbers, rounded once to its type."""

    def run(opcode: Opcode, sources: Sequence[Array]) -> Array:
        kind = opcode.kind
        values = [_flushed(opcode, parts_of(source, kind)) for source in sources]
        element = _FLOATS.get(split_packed(kind)[0])
        if element is None:
            result = compute(*values)
            return register_of(np.clip(result, 0, 1) if "sat" in opcode.words else result, kind)
        result = compute(*[value.astype(np.float64) for value in values]).astype(carrier(element))
        result = _flushed(opcode, rounded(result, element))
        return register_of(np.clip(result, 0, 1) if "sat" in opcode.words else result, kind)

    return run


def bitwise(compute: Compute) -> Run:
    """Return an instruction on bits."""

    def run(opcode: Opcode, sources: Sequence[Array]) -> Array:
        del opcode
        return compute(*sources)

    return run


_products = arithmetic(lambda left, right, addend=0.0: left * right + addend)


def multiply(opcode: Opcode, sources: Sequence[Array]) -> Array:
    """`mul` and `mad`; of integers the low half, the high half (`hi`) or the whole product (`wide`)."""
    if split_packed(opcode.kind)[0] in _FLOATS:
        return _products(opcode, sources)
    bits, sign = width(opcode.kind), opcode.kind[0]
    # Products of 64-bit integers need Python integers.
    wide = object if bits > 32 else np.int64 if sign == "s" else np.uint64
    left, right = (parts_of(source, opcode.kind)[..., 0].astype(wide) for source in sources[:2])
    whole = left * right
    out = 2 * bits if "wide" in opcode.words else bits
    if "hi" in opcode.words:
        whole = whole >> (bits if wide is object else whole.dtype.type(bits))
    if len(sources) > 2:
        whole = whole + parts_of(sources[2], f"{sign}{out}")[..., 0].astype(wide)
    if wide is object:
        whole = np.array([int(value) & ((1 << out) - 1) for value in whole], np.uint64)
    return whole.astype(bits_dtype(out))


def _shifted(opcode: Opcode, sources: Sequence[Array]) -> Array:
    """`shl` and `shr`: shifts by the width or more give zero, or the sign."""
    value, amount = sources
    bits = width(opcode.kind)
    inside = np.minimum(amount, bits - 1).astype(value.dtype)
    if opcode.name == "shl":
        return np.where(amount < bits, value << inside, 0).astype(value.dtype)
    if opcode.kind.startswith("s"):
        return (parts_of(value, opcode.kind)[..., 0] >> inside.astype(f"i{bits // 8}")).view(value.dtype)
    return np.where(amount < bits, value >> inside, 0).astype(value.dtype)


def _funnel_shifted(opcode: Opcode, sources: Sequence[Array]) -> Array:
    """`shf`: shifts a pair of registers, of which the second is the upper one, and keeps one of the two."""
    lower, upper, amount = (source.astype(np.uint64) for source in sources)
    amount = amount & 31 if "wrap" in opcode.words else np.minimum(amount, 32)
    pair = upper << np.uint64(32) | lower
    return ((pair << amount) >> np.uint64(32) if "l" in opcode.words else pair >> amount).astype(np.uint32)


def lookup(opcode: Opcode, sources: Sequence[Array]) -> Array:
    """`lop3`: any function of three bits, given by its truth table."""
    del opcode
    first, second, third, table = sources
    result = np.zeros_like(first)
    for row in range(8):
        if int(table.flat[0]) >> row & 1:
            result |= (first if row & 4 else ~first) & (second if row & 2 else ~second) & (third if row & 1 else ~third)
    return result


def permute(opcode: Opcode, sources: Sequence[Array]) -> Array:
    """`prmt`: picks four of eight bytes, or their replicated signs."""
    if opcode.words:
        raise CannotExecute(f"the PTX instruction prmt.{'.'.join(opcode.words)}")
    low, high, choice = sources
    pair = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
    result = np.zeros_like(low)
    for at in range(4):
        selector = (choice >> np.uint32(4 * at)) & np.uint32(0xF)
        byte = (pair >> ((selector & np.uint32(7)).astype(np.uint64) * np.uint64(8)) & np.uint64(0xFF)).astype(
            np.uint32
        )
        sign = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
        result |= np.where(selector & np.uint32(8), sign, byte) << np.uint32(8 * at)
    return result


_ORDERED: Mapping[str, Compute] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}


def relation(predicate: str, *, is_float: bool) -> Compute:
    """Return a comparison.  With a NaN, ordered ones are false and those that end in `u` are true."""
    if not is_float:
        return _ORDERED[predicate]
    if predicate == "num":
        return lambda left, right: ~(np.isnan(left) | np.isnan(right))
    if predicate == "nan":
        return lambda left, right: np.isnan(left) | np.isnan(right)
    if predicate == "ne":
        return lambda left, right: (left < right) | (left > right)
    if predicate == "neu":
        return np.not_equal
    if predicate in _ORDERED:
        return _ORDERED[predicate]
    opposite = {"equ": "ne", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}[predicate]
    ordered = relation(opposite, is_float=True)
    return lambda left, right: ~ordered(left, right)


def compare(opcode: Opcode, sources: Sequence[Array]) -> Sequence[Array]:
    """`setp`: the predicate and its negation; of packed halves, one predicate for each half."""
    left, right = (_flushed(opcode, parts_of(source, opcode.kind)) for source in sources)
    result = relation(opcode.words[0], is_float=left.dtype.kind == "f")(left, right)
    return [result[..., 0], result[..., 1]] if result.shape[-1] == 2 else [result[..., 0], ~result[..., 0]]


def _to_e2m1(values: Array) -> Array:
    """The code of the nearest four-bit float, ties to the even code."""
    size = np.minimum(np.abs(np.nan_to_num(values.astype(np.float64), nan=6.0)), 6.0)
    above = np.searchsorted(_E2M1_VALUES, size, side="left")
    below = np.maximum(above - 1, 0)
    middle = (_E2M1_VALUES[above] + _E2M1_VALUES[below]) / 2
    code = np.where((size > middle) | ((size == middle) & (above % 2 == 0)), above, below)
    code = np.where(np.isnan(values), 7, code)
    return (code | np.where(np.signbit(values), 8, 0)).astype(np.uint8)


def _to_ue8m0(values: Array, *, up: bool) -> Array:
    """The `ue8m0` code of a number: the exponent of two, biased by 127, rounded down or `up`."""
    fraction, exponent = np.frexp(np.abs(values.astype(np.float64)))
    power = exponent - 1 + (up & (fraction > 0.5))
    code = np.clip(np.where(values == 0, -127, power), -127, 127) + 127
    return np.where(np.isnan(values), 0xFF, code).astype(np.uint8)


def convert(opcode: Opcode, sources: Sequence[Array]) -> Array:
    """`cvt`; of two sources, the first becomes the upper part."""
    target, source_kind = opcode.types[0], opcode.kind
    columns = [parts_of(source, source_kind) for source in reversed(sources)]
    values = _flushed(opcode, np.concatenate(columns, axis=-1) if len(columns) > 1 else columns[0])
    if "relu" in opcode.words:
        values = np.maximum(values, 0)
    element_name, count = split_packed(target)
    if element_name == "e2m1":
        codes = _to_e2m1(values)
        result = np.zeros(codes.shape[:-1], bits_dtype(4 * count))
        for at in range(count):
            result |= codes[..., at].astype(result.dtype) << result.dtype.type(4 * at)
        return result
    if element_name == "ue8m0":
        return register_of(_to_ue8m0(values, up="rp" in opcode.words), f"u8x{count}")
    if element_name in _FLOATS:
        return register_of(_to_float(opcode, values, element_name), target)
    return register_of(_to_integer(opcode, values, element_name), target)


def _to_float(opcode: Opcode, values: Array, element_name: str) -> Array:
    element = _FLOATS[element_name]
    if values.dtype.kind == "f":
        for word, round_to in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
            values = round_to(values) if word in opcode.words else values
    if element_name == "tf32":
        bits = values.astype(np.float32).view(np.uint32)
        # to nearest, ties away from zero (`cvt.rna`)
        return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    result = values.astype(carrier(element))
    if "rz" in opcode.words and element in {"f16", "bf16"}:
        result = toward_zero(result, element)
    result = rounded(result, element)
    return np.clip(result, 0, 1) if "sat" in opcode.words else result


def _to_integer(opcode: Opcode, values: Array, element_name: str) -> Array:
    bits = width(element_name)
    if values.dtype.kind != "f":
        return values.astype(f"{'i' if element_name.startswith('s') else 'u'}{bits // 8}")
    for word, round_to in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        values = round_to(values) if word in opcode.words else values
    limits = np.iinfo(f"{'i' if element_name.startswith('s') else 'u'}{bits // 8}")
    wide = np.nan_to_num(values.astype(np.float64), nan=0.0)
    beyond = wide >= float(limits.max)  # float64 cannot hold the largest i64
    held = np.where(beyond, 0.0, np.maximum(wide, float(limits.min))).astype(limits.dtype)
    return np.where(beyond, np.array(limits.max, limits.dtype), held)


def _move(opcode: Opcode, sources: Sequence[Array]) -> Array:
    del opcode
    return sources[0]


def _select(opcode: Opcode, sources: Sequence[Array]) -> Array:
    del opcode
    return np.where(sources[2].astype(np.bool_), sources[0], sources[1])


def _divided(left: Array, right: Array) -> Array:
    if left.dtype.kind == "f":
        return left / right
    safe = np.where(right == 0, 1, right)
    # PTX rounds toward zero, NumPy's // down: divide magnitudes.
    quotient = np.abs(left.astype(np.int64)) // np.abs(safe.astype(np.int64)) * np.sign(left) * np.sign(safe)
    return np.where(right == 0, -1, quotient)


NO_EFFECT = frozenset(
    {"griddepcontrol", "nanosleep", "fence", "membar", "bar", "barrier", "prefetch", "prefetchu", "discard"}
)
"""Instructions without effect here: they change no register, and launches run one after the other."""

INSTRUCTIONS: Mapping[str, RunSeveral] = {
    "abs": arithmetic(np.abs),
    "add": arithmetic(np.add),
    "and": bitwise(np.bitwise_and),
    "cos": arithmetic(np.cos),
    "cvt": convert,
    "div": arithmetic(_divided),
    "ex2": arithmetic(np.exp2),
    "fma": arithmetic(lambda left, right, addend: left * right + addend),
    "lg2": arithmetic(np.log2),
    "lop3": lookup,
    "mad": multiply,
    "max": arithmetic(np.fmax),
    "min": arithmetic(np.fmin),
    "mov": _move,
    "mul": multiply,
    "neg": arithmetic(np.negative),
    "not": bitwise(np.bitwise_not),
    "or": bitwise(np.bitwise_or),
    "prmt": permute,
    "rcp": arithmetic(np.reciprocal),
    "rsqrt": arithmetic(lambda value: 1 / np.sqrt(value)),
    "selp": _select,
    "setp": compare,
    "shf": _funnel_shifted,
    "shl": _shifted,
    "shr": _shifted,
    "sin": arithmetic(np.sin),
    "sqrt": arithmetic(np.sqrt),
    "sub": arithmetic(np.subtract),
    "tanh": arithmetic(np.tanh),
    "xor": bitwise(np.bitwise_xor),
}
