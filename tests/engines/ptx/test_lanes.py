"""Instructions of one thread: integers against Python's, floating-point numbers against exact fractions."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.engines.ptx.ptx_programs import computed

Array = NDArray[Any]
pytestmark = pytest.mark.usefixtures("_both_executors")
COUNT = 256
BITS32 = [0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF]


def integers(seed: int, bits: int = 32) -> Array:
    drawn = np.random.default_rng(seed).integers(0, 1 << bits, COUNT, np.uint64, endpoint=False)
    drawn[: len(BITS32)] = BITS32
    return np.random.default_rng(seed + 100).permutation(drawn).astype(f"u{bits // 8}")


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


INTEGER: dict[str, Callable[..., int]] = {
    "add.s32 $0, $1, $2;": lambda a, b: a + b,
    "mul.hi.s32 $0, $1, $2;": lambda a, b: signed(a) * signed(b) >> 32,
    "mul.hi.u32 $0, $1, $2;": lambda a, b: a * b >> 32,
    "mad.lo.s32 $0, $1, $2, $3;": lambda a, b, c: a * b + c,
    "div.s32 $0, $1, $2;": lambda a, b: int(Fraction(signed(a), signed(b))) if b else -1,
    "rem.u32 $0, $1, $2;": lambda a, b: a % b if b else a,
    "min.s32 $0, $1, $2;": lambda a, b: min(signed(a), signed(b)),
    "shl.b32 $0, $1, $2;": lambda a, b: a << b if b < 32 else 0,
    "shr.s32 $0, $1, $2;": lambda a, b: signed(a) >> min(b, 31),
    "shr.u32 $0, $1, $2;": lambda a, b: a >> b if b < 32 else 0,
    "bfe.u32 $0, $1, 3, 7;": lambda a: a >> 3 & 127,
    "bfe.s32 $0, $1, 28, 7;": lambda a: signed(a) >> 28,
    "bfi.b32 $0, $1, $2, 4, 9;": lambda a, b: b & ~(0x1FF << 4) | (a & 0x1FF) << 4,
    "clz.b32 $0, $1;": lambda a: 32 - a.bit_length(),
    "popc.b32 $0, $1;": lambda a: a.bit_count(),
    "brev.b32 $0, $1;": lambda a: int(f"{a:032b}"[::-1], 2),
    "lop3.b32 $0, $1, $2, $3, 0x96;": lambda a, b, c: a ^ b ^ c,
    "add.cc.u32 $0, $1, $2; addc.u32 $0, $3, 0;": lambda a, b, c: c + (a + b >> 32),
    "mad.lo.cc.u32 $0, $1, $2, $3; madc.hi.u32 $0, $1, $2, 0;": lambda a, b, c: a * b + c >> 32,
    "sub.cc.u32 $0, $1, $2; subc.u32 $0, $3, 0;": lambda a, b, c: c - (a < b),
}


@pytest.mark.parametrize("instruction", INTEGER)
def test_integers_are_computed_as_python_does(instruction: str) -> None:
    sources = [integers(seed) for seed in range(3)]
    used = [source for number, source in enumerate(sources, start=1) if number == 1 or f"${number}" in instruction]
    operands = zip(*(source.tolist() for source in used), strict=True)
    expected = [INTEGER[instruction](*values) % (1 << 32) for values in operands]
    assert computed(instruction, np.uint32, *used).tolist() == expected


def test_products_of_64_bits_have_their_upper_half() -> None:
    left, right = integers(1, 64), integers(2, 64)
    pairs = list(zip(left.tolist(), right.tolist(), strict=True))
    assert computed("mul.hi.u64 $0, $1, $2;", np.uint64, left, right).tolist() == [a * b >> 64 for a, b in pairs]
    assert computed("mul.hi.s64 $0, $1, $2;", np.uint64, left, right).tolist() == [
        (signed(a, 64) * signed(b, 64) >> 64) % (1 << 64) for a, b in pairs
    ]


def floats(seed: int) -> Array:
    """Numbers of all sizes; every eighth is made so that sums of products nearly cancel."""
    return integers(seed).view(np.float32)


def nearest(value: Fraction) -> np.float32:
    """Round a fraction to float32, ties to even."""
    with np.errstate(over="ignore"):
        guess = np.float32(float(value))
        around = [guess, np.nextafter(guess, np.float32("inf")), np.nextafter(guess, np.float32("-inf"))]
    finite = [number for number in around if np.isfinite(number)]
    if not finite or abs(value) >= Fraction(2) ** 128 - Fraction(2) ** 103:
        return np.float32("inf") if value > 0 else np.float32("-inf")
    return min(finite, key=lambda number: (abs(Fraction(float(number)) - value), int(number.view(np.uint32)) & 1))


def test_a_fused_product_is_rounded_once() -> None:
    a, b, c = floats(3), floats(4), floats(5)
    # Half of the addends nearly cancel the product, and the rest of these are a tie away from it.
    with np.errstate(all="ignore"):
        c[::2] = -(a * b)[::2]
        c[::4] = np.nextafter((a * b)[::4], np.float32(0))
        got = computed("fma.rn.f32 $0, $1, $2, $3;", np.float32, a, b, c)
    for index in np.flatnonzero(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)).tolist():
        exact = Fraction(float(a[index])) * Fraction(float(b[index])) + Fraction(float(c[index]))
        assert got[index] == nearest(exact)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("max.f32 $0, $1, $2;", [2.0, 1.0, 2.0, 0.0]),
        ("max.NaN.f32 $0, $1, $2;", [2.0, np.nan, np.nan, 0.0]),
        ("min.f32 $0, $1, $2;", [1.0, 1.0, 2.0, -0.0]),
        ("max.xorsign.abs.f32 $0, $1, $2;", [2.0, 1.0, 2.0, -0.0]),
    ],
)
def test_extremes_treat_nan_and_zeros_as_ptx_says(instruction: str, expected: list[float]) -> None:
    left = np.array([1.0, 1.0, np.nan, 0.0] * 8, np.float32)
    right = np.array([2.0, np.nan, 2.0, -0.0] * 8, np.float32)
    got = computed(instruction, np.float32, left, right)[:4]
    assert np.array_equal(got, np.array(expected, np.float32), equal_nan=True)
    assert np.signbit(got[3]) == np.signbit(np.float32(expected[3]))


def test_an_extreme_of_magnitudes_has_the_product_of_the_signs() -> None:
    left = np.array([-3.0, -3.0, 3.0, 3.0] * 8, np.float32)
    right = np.array([-2.0, 2.0, -2.0, 2.0] * 8, np.float32)
    assert computed("min.xorsign.abs.f32 $0, $1, $2;", np.float32, left, right)[:4].tolist() == [2.0, -2.0, -2.0, 2.0]


@pytest.mark.parametrize(
    ("instruction", "result", "values"),
    [
        ("cvt.rni.s32.f32 $0, $1;", np.int32, {2.5: 2, -3.5: -4, 3e9: 2**31 - 1, float("nan"): 0}),
        ("cvt.rzi.u32.f32 $0, $1;", np.uint32, {2.9: 2, -1.0: 0, 5e9: 2**32 - 1}),
        ("cvt.rn.f16.f32 $0, $1;", np.float16, {1.0: 1.0, 2049.0: 2048.0, 1e9: float("inf")}),
        ("cvt.rn.bf16.f32 $0, $1;", np.uint16, {1.0: 0x3F80, 1.00390625: 0x3F80, 1.01171875: 0x3F82}),
    ],
)
def test_conversions_round_and_saturate(instruction: str, result: type[Any], values: dict[float, float]) -> None:
    source = np.array(list(values) + [1.0] * (32 - len(values)), np.float32)
    got = computed(instruction, result, source)[: len(values)]
    assert got.tolist() == list(values.values())
