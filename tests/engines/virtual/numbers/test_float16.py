"""float16 conversions by vector code equal NumPy's bit for bit, for every size, layout and content."""

import numpy as np
import pytest

from harness.engines.virtual.numbers.float16 import SMALL, from_half, to_half
from harness.execution.poison import PATTERNS

EVERY_HALF = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
NUMBERS = EVERY_HALF[~np.isnan(EVERY_HALF)].copy()


def around_every_half() -> np.ndarray:
    """Return each float16, the midpoint between it and the next, and the float32 neighbours of both."""
    with np.errstate(over="ignore"):
        exact = NUMBERS.astype(np.float32)
        middle = (exact + np.nextafter(NUMBERS, np.float16(np.inf)).astype(np.float32)) / 2
        towards = (np.float32(np.inf), np.float32(-np.inf))
        neighbours = [np.nextafter(values, to) for values in (exact, middle) for to in towards]
    extremes = np.array([3e38, -3e38, 65519, 65520, 1e-45, -1e-45], np.float32)
    return np.concatenate([exact, middle, *neighbours, extremes])


def test_every_half_becomes_the_same_float32() -> None:
    assert len(NUMBERS) > SMALL
    assert np.array_equal(from_half(NUMBERS).view(np.uint32), NUMBERS.astype(np.float32).view(np.uint32))


def test_float32_neighbours_of_halves_and_midpoints_round_as_in_numpy() -> None:
    values = around_every_half()
    values = values[~np.isnan(values)].copy()
    with np.errstate(over="ignore"):
        assert np.array_equal(to_half(values).view(np.uint16), values.astype(np.float16).view(np.uint16))


@pytest.mark.parametrize("count", [SMALL, SMALL + 1])
def test_the_poison_of_fresh_memory_survives_both_conversions(count: int) -> None:
    (pattern,) = {bits for dtype, bits in PATTERNS.items() if str(dtype) == "torch.float16"}
    fresh = np.full(count, pattern, np.uint16).view(np.float16)
    assert (to_half(from_half(fresh)).view(np.uint16) == pattern).all()


def test_broadcast_and_read_only_blocks_are_converted() -> None:
    wide = np.broadcast_to(np.full((1, 1), 1.5, np.float32), (SMALL, 2))
    read_only = NUMBERS.copy()
    read_only.flags.writeable = False
    assert (to_half(wide) == 1.5).all()
    assert np.array_equal(from_half(read_only), NUMBERS.astype(np.float32))
