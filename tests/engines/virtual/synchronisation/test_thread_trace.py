"""Which accesses of an epoch meet, compared with a search of all pairs."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.engines.virtual.memory.arguments import Argument
from harness.engines.virtual.synchronisation.thread_trace import Epoch, TracedAccess

X = Argument("x", None, 0, 4, (8,), (1,))
ACCESSES = st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 5), min_size=1, max_size=4)), max_size=6)
Pair = tuple[int, int, int, int, int]
"""The lines of two accesses, a cell, and its index in both tiles."""


def epoch_of(accesses: list[tuple[bool, list[int]]]) -> Epoch:
    epoch = Epoch()
    for line, (is_store, cells) in enumerate(accesses):
        epoch.accesses.append(TracedAccess(line, X, (len(cells),), is_store, np.arange(len(cells))))
        epoch.cells.append(np.array(cells))
        epoch.at.append(np.arange(len(cells)))
    return epoch


def found(epoch: Epoch) -> set[Pair]:
    return {
        (meeting.first.line, meeting.second.line, *cell)
        for meeting in epoch.meetings()
        for cell in zip(meeting.bytes.tolist(), meeting.first_at.tolist(), meeting.second_at.tolist(), strict=True)
    }


def expected(accesses: list[tuple[bool, list[int]]]) -> set[tuple[int, int, int]]:
    """Return the lines of each access and the store before it, and of each load and the store after it, by cell."""
    pairs = set[tuple[int, int, int]]()
    for cell in range(6):
        touching = [(line, is_store) for line, (is_store, cells) in enumerate(accesses) if cell in cells]
        last: int | None = None
        for line, is_store in touching:
            if last is not None:
                pairs.add((last, line, cell))
            last = line if is_store else last
        following: int | None = None
        for line, is_store in reversed(touching):
            if following is not None and not is_store:
                pairs.add((line, following, cell))
            following = line if is_store else following
    return pairs


@settings(deadline=None, database=None)
@given(ACCESSES)
def test_meetings_are_those_of_a_search_of_all_pairs(accesses: list[tuple[bool, list[int]]]) -> None:
    meetings = found(epoch_of(accesses))
    assert {(first, second, cell) for first, second, cell, _, _ in meetings} == expected(accesses)
    for first, second, cell, at, other in meetings:
        assert (accesses[first][1][at], accesses[second][1][other]) == (cell, cell)


def test_every_element_of_a_load_meets_the_store() -> None:
    assert found(epoch_of([(True, [3, 4]), (False, [4, 4, 5])])) == {(0, 1, 4, 1, 0), (0, 1, 4, 1, 1)}


def test_a_loop_of_many_trips_is_searched_once() -> None:
    trips = 3000
    epoch = epoch_of([(trip % 2 == 0, [trip // 2, trip // 2 + 1]) for trip in range(trips)])
    lines = sorted((meeting.first.line, meeting.second.line) for meeting in epoch.meetings())
    assert set(pairwise(range(trips))) <= set(lines)
