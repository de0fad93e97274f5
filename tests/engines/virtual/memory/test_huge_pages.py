"""Zeros in large memory."""

import numpy as np
import pytest

from harness.engines.virtual.memory.huge_pages import LARGE_BYTES, prefer_huge_pages, zeros


@pytest.mark.parametrize("size", [0, 12, LARGE_BYTES, LARGE_BYTES + 4])
def test_arrays_of_any_size_are_zeros_that_can_be_written(size: int) -> None:
    cells = zeros(size // 4, np.int32)
    assert (len(cells), cells.dtype, cells.any()) == (size // 4, np.int32, False)
    cells[-1:] = 7
    assert cells[-1:].tolist() == [7][: len(cells)]


def test_memory_keeps_its_content() -> None:
    cells = np.arange(LARGE_BYTES, dtype=np.uint16)
    prefer_huge_pages(cells.ctypes.data + 3, cells.nbytes - 3)
    assert (cells == np.arange(LARGE_BYTES, dtype=np.uint16)).all()
