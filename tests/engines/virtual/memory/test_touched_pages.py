"""The spans of an array that a process has touched."""

import numpy as np

from harness.engines.virtual.memory.touched_pages import touched_spans

CELLS_AT_ONCE = 1 << 21  # spans of 8 MiB: larger than any page


def test_only_written_spans_of_a_large_array_are_touched() -> None:
    cells = np.zeros(8 * CELLS_AT_ONCE + 1, np.int32)
    cells[3 * CELLS_AT_ONCE + 700_000] = 1
    touched = touched_spans(cells, CELLS_AT_ONCE).tolist()
    assert len(touched) == 9
    assert touched[3]
    assert not any(touched[5:8])


def test_a_small_array_is_touched() -> None:
    assert touched_spans(np.ones(5, np.int32), CELLS_AT_ONCE).tolist() == [True]
