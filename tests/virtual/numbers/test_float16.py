"""float16 conversions by vector code agree with NumPy's bit for bit, whatever the size, layout and contents."""

import numpy as np
import pytest

from harness.ops.poison import PATTERNS
from harness.virtual.numbers.float16 import SMALL, from_half, to_half

EVERY_HALF = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
NUMBERS = EVERY_HALF[~np.isnan(EVERY_HALF)].copy()


def around_every_half() -> np.ndarray:
    """Each float16, the float32s beside it, and those beside the middle between it and the next."""
    with np.errstate(over="ignore"):
        exact = NUMBERS.astype(np.float32)
        middle = (exact + np.nextafter(NUMBERS, np.float16(np.inf)).astype(np.float32)) / 2
        towards = (np.float32(np.inf), np.float32(-np.inf))
        beside = [np.nextafter(values, to) for values in (exact, middle) for to in towards]
    return np.concatenate([exact, middle, *beside, np.array([3e38, -3e38, 65519, 65520, 1e-45, -1e-45], np.float32)])


def test_every_half_becomes_the_same_float32() -> None:
    assert len(NUMBERS) > SMALL
    assert np.array_equal(from_half(NUMBERS).view(np.uint32), NUMBERS.astype(np.float32).view(np.uint32))


def test_float32s_around_every_half_and_every_middle_are_rounded_alike() -> None:
    values = around_every_half()
    values = values[~np.isnan(values)].copy()
    with np.errstate(over="ignore"):
        assert np.array_equal(to_half(values).view(np.uint16), values.astype(np.float16).view(np.uint16))


@pytest.mark.parametrize("count", [SMALL, SMALL + 1])
def test_the_pattern_of_fresh_memory_stays_as_it_is(count: int) -> None:
    (pattern,) = {bits for dtype, bits in PATTERNS.items() if str(dtype) == "torch.float16"}
    fresh = np.full(count, pattern, np.uint16).view(np.float16)
    assert (to_half(from_half(fresh)).view(np.uint16) == pattern).all()


def test_blocks_that_are_broadcast_or_read_only_are_converted_too() -> None:
    wide = np.broadcast_to(np.full((1, 1), 1.5, np.float32), (SMALL, 2))
    fixed = NUMBERS.copy()
    fixed.flags.writeable = False
    assert (to_half(wide) == 1.5).all()
    assert np.array_equal(from_half(fixed), NUMBERS.astype(np.float32))
