"""libdevice's functions of integers and of the bits of numbers.  All results are exact."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from harness.engines.virtual.numbers.elements import Array, unsigned
from harness.engines.virtual.operations.libdevice_rounding import to_integer

Function = Callable[..., Array]


def _bits(values: Array) -> Array:
    """The binary digits of each integer along a new last axis, the highest digit first."""
    width = 8 * values.dtype.itemsize
    places = np.arange(width - 1, -1, -1, dtype=unsigned(values).dtype)
    return ((unsigned(values)[..., None] >> places) & 1).astype(np.bool_)


def _from_bits(bits: Array, like: Array) -> Array:
    places = np.arange(bits.shape[-1] - 1, -1, -1, dtype=unsigned(like).dtype)
    return np.bitwise_or.reduce(bits.astype(places.dtype) << places, axis=-1).view(like.dtype)


def _leading_zeros(values: Array) -> Array:
    bits = _bits(values)
    return np.where(bits.any(-1), bits.argmax(-1), bits.shape[-1]).astype(np.int32)


def _first_set(values: Array) -> Array:
    bits = _bits(values)[..., ::-1]
    return np.where(bits.any(-1), bits.argmax(-1) + 1, 0).astype(np.int32)


def _high_product(left: Array, right: Array) -> Array:
    if left.dtype.itemsize == 4:
        wide = np.int64 if left.dtype.kind == "i" else np.uint64
        return (left.astype(wide) * right.astype(wide) >> np.array(32, wide)).astype(left.dtype)
    high = np.frompyfunc(lambda first, second: (first * second) >> 64, 2, 1)(left.astype(object), right.astype(object))
    return high.astype(left.dtype)


def _low_24_bits(values: Array) -> Array:
    """The low 24 bits, extended by sign or by zeros as the type has it."""
    return (values << 8) >> values.dtype.type(8)


def _differences(left: Array, right: Array, addend: Array) -> Array:
    """The sum of absolute differences, wrapping."""
    larger, smaller = np.maximum(left, right), np.minimum(left, right)
    return addend + (larger - smaller).view(addend.dtype)


def _average_down(left: Array, right: Array) -> Array:
    """The average rounded down, without the carry that a sum would lose."""
    return (left & right) + ((left ^ right) >> left.dtype.type(1))


def _average_up(left: Array, right: Array) -> Array:
    """The average rounded up, without the carry that a sum would lose."""
    return (left | right) - ((left ^ right) >> left.dtype.type(1))


def _permuted_bytes(low: Array, high: Array, selector: Array) -> Array:
    """`byte_perm`: each result byte is one of eight, chosen by the low three bits of a hexadecimal selector digit."""
    both = unsigned(low).astype(np.uint64) | unsigned(high).astype(np.uint64) << np.uint64(32)
    result = np.zeros_like(both)
    for byte in range(4):
        position = (unsigned(selector).astype(np.uint64) >> np.uint64(4 * byte)) & np.uint64(7)
        result |= ((both >> (position * np.uint64(8))) & np.uint64(0xFF)) << np.uint64(8 * byte)
    return result.astype(np.uint32).view(np.int32)


def _as_unsigned(function: Function) -> Function:
    """Apply a function to the operands' bits as unsigned integers."""
    return lambda *operands: function(*map(unsigned, operands)).view(operands[0].dtype)


def _exponent(values: Array) -> Array:
    exponents = np.frexp(values)[1] - 1
    least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    special = np.where(np.isinf(values), most, least)
    return np.where(np.isfinite(values) & (values != 0), exponents, special).astype(np.int32)


def away_from_zero(value: Array) -> Array:
    """Round to the nearest integer, halves away from zero."""
    cut = np.trunc(value)
    return np.copysign(np.where(np.abs(value - cut) >= 0.5, np.abs(cut) + 1, np.abs(cut)), value)


def _float64_from_words(high: Array, low: Array) -> Array:
    words = unsigned(high).astype(np.uint64) << np.uint64(32) | unsigned(low).astype(np.uint64)
    return words.view(np.float64)


FUNCTIONS: Mapping[str, Function] = {
    "abs": np.abs,
    "llabs": np.abs,
    "brev": lambda value: _from_bits(_bits(value)[..., ::-1], value),
    "brevll": lambda value: _from_bits(_bits(value)[..., ::-1], value),
    "byte_perm": _permuted_bytes,
    "clz": _leading_zeros,
    "clzll": _leading_zeros,
    "double2hiint": lambda value: (value.view(np.int64) >> 32).astype(np.int32),
    "double2loint": lambda value: value.view(np.int64).astype(np.int32),
    "double_as_longlong": lambda value: value.view(np.int64),
    "ffs": _first_set,
    "ffsll": _first_set,
    "float_as_int": lambda value: value.view(np.int32),
    "float_as_uint": lambda value: value.view(np.int32),
    "hadd": _average_down,
    "hiloint2double": _float64_from_words,
    "ilogb": _exponent,
    "ilogbf": _exponent,
    "int_as_float": lambda value: value.view(np.float32),
    "llrint": partial(to_integer, "ll", np.rint),
    "llrintf": partial(to_integer, "ll", np.rint),
    "llround": partial(to_integer, "ll", away_from_zero),
    "llroundf": partial(to_integer, "ll", away_from_zero),
    "longlong_as_double": lambda value: value.view(np.float64),
    "mul24": lambda left, right: _low_24_bits(left) * _low_24_bits(right),
    "mul64hi": _high_product,
    "mulhi": _high_product,
    "nextafter": np.nextafter,
    "nextafterf": np.nextafter,
    "popc": lambda value: _bits(value).sum(-1).astype(np.int32),
    "popcll": lambda value: _bits(value).sum(-1).astype(np.int32),
    "rhadd": _average_up,
    "sad": _differences,
    "uhadd": _as_unsigned(_average_down),
    "uint_as_float": lambda value: value.view(np.float32),
    "umul24": _as_unsigned(lambda left, right: _low_24_bits(left) * _low_24_bits(right)),
    "umul64hi": _as_unsigned(_high_product),
    "umulhi": _as_unsigned(_high_product),
    "urhadd": _as_unsigned(_average_up),
    "usad": _as_unsigned(_differences),
}
"""By symbol without `__nv_`."""
