"""Blocks of a map count their cells for any shape, and cells map to their indices for any strides."""

from math import inf, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engines.virtual.memory.arguments import Argument, Buffer
from harness.execution.error_map import largest, share
from harness.model.picture import MOST_ACROSS, MOST_DOWN, Spread

SHAPES = st.lists(st.integers(1, 70), min_size=0, max_size=3).map(tuple)


@given(shape=SHAPES, data=st.data())
def test_every_cell_counts_in_its_block(shape: tuple[int, ...], data: st.DataObject) -> None:
    cells = sorted(data.draw(st.sets(st.integers(0, prod(shape) - 1), max_size=40)))
    spread = share(shape, np.array(cells, np.int64))
    (height, width), (rows, columns) = spread.block, spread.table
    counted: dict[tuple[int, int], int] = {}
    for cell in cells:
        place = (cell // columns // height, cell % columns // width)
        counted[place] = counted.get(place, 0) + 1
    assert [mark[:2] for mark in spread.marks] == sorted(counted)
    for down, across, part in spread.marks:
        cells_there = min(height, rows - down * height) * min(width, columns - across * width)
        assert part == pytest.approx(counted[down, across] / cells_there, rel=0.01)
    assert -(-rows // height) <= MOST_DOWN
    assert -(-columns // width) <= MOST_ACROSS


def test_a_block_shows_its_largest_amount_without_small_ones() -> None:
    amounts = np.zeros((48, 96))
    amounts[0, 1], amounts[1, 0], amounts[5, 5], amounts[47, 95] = 3.0, 70.0, 0.9, inf
    assert largest((48, 96), amounts) == Spread(shape=(48, 96), marks=((0, 0, 70.0), (23, 47, inf)))


def test_the_largest_amounts_show_if_all_are_below_the_tolerance() -> None:
    assert largest((4,), np.array([0.1, 0.5, 0.8, 0.3])).marks == ((0, 1, 0.5), (0, 2, 0.8))


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    gaps=st.lists(st.integers(0, 2), min_size=3, max_size=3),
    order=st.permutations(range(3)),
)
def test_cells_map_to_their_indices_for_any_strides(sizes: list[int], gaps: list[int], order: list[int]) -> None:
    strides = [0] * len(sizes)
    reached = 1
    for axis in (axis for axis in order if axis < len(sizes)):
        strides[axis] = reached
        reached = reached * sizes[axis] + gaps[axis]
    memory = np.zeros(8, np.uint8)
    buffer = Buffer(memory.ctypes.data, 8, None)
    argument = Argument("x", buffer, 0, 1, tuple(sizes), tuple(strides))
    elements = np.arange(argument.extent + 3)
    indices = [argument.index_of(element) for element in elements.tolist()]
    places = [
        np.ravel_multi_index(index, sizes)
        for index in indices
        if len(index) == len(sizes) and index in np.ndindex(*sizes)
    ]
    if len(sizes) > 1:
        assert argument.cells_of(elements).tolist() == places
    else:
        assert set(argument.cells_of(elements).tolist()) == set(range(sizes[0]))
