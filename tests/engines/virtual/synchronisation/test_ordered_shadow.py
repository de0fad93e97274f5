"""The ordered shadow agrees with a history that keeps every access with a whole vector clock."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from harness.engines.virtual.synchronisation.clocks import Clocks
from harness.engines.virtual.synchronisation.ordered_shadow import OrderedShadow

CELLS = 2
FLAGS = 2
ADDRESS = 4096
LOAD, POLL, STORE, ATOMIC, ACQUIRE, RELEASE = "load", "poll", "store", "atomic", "acquire", "release"
PLAIN = {frozenset({STORE}), frozenset({STORE, LOAD}), frozenset({STORE, POLL})}
MIXED = {frozenset({ATOMIC, STORE}), frozenset({ATOMIC, LOAD})}

Action = tuple[str, int, int]
"""The kind of action, the program, and the cell or flag."""


@dataclass
class History:
    """The definition of a race: two conflicting accesses, of which the later program had not seen the earlier clock."""

    programs: int
    seen: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    flags: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    accesses: list[tuple[str, int, int, int]] = field(default_factory=list[tuple[str, int, int, int]])

    def __post_init__(self) -> None:
        self.seen = {
            program: [int(other == program) for other in range(self.programs)] for program in range(self.programs)
        }

    def act(self, what: str, program: int, at: int) -> set[int]:
        """Record an action; returns the programs whose earlier accesses it races with."""
        own_clocks = self.seen[program]
        if what == ACQUIRE:
            self.seen[program] = [max(pair) for pair in zip(own_clocks, self.flags.get(at, own_clocks), strict=True)]
            return set()
        if what == RELEASE:
            self.flags[at] = [max(pair) for pair in zip(own_clocks, self.flags.get(at, own_clocks), strict=True)]
            own_clocks[program] += 1
            return set()
        races = {
            other
            for earlier, other, place, clock in self.accesses
            if place == at
            and other != program
            and frozenset({earlier, what}) in PLAIN | MIXED
            and clock > own_clocks[other]
        }
        self.accesses.append((what, program, at, own_clocks[program]))
        return races


class ShadowedHistory:
    """The same interface on top of the shadow."""

    def __init__(self, programs: int) -> None:
        self.clocks = Clocks(programs)
        self.shadow = OrderedShadow(4 * CELLS, 4, self.clocks)

    def act(self, what: str, program: int, at: int) -> set[int]:
        number, starts = program + 1, np.array([at])
        numbers = np.array([number], np.int32)
        flag = [(ADDRESS, 4 * at)]
        match what:
            case "acquire":
                self.clocks.acquire(number, flag)
                clashes = []
            case "release":
                self.clocks.release(number, flag)
                clashes = []
            case "load":
                clashes = [self.shadow.load(starts, 1, numbers, 0)]
            case "poll":
                clashes = [self.shadow.poll(starts, 1, numbers, 0)]
            case "store":
                stores, _, reads = self.shadow.store(starts, 1, numbers)
                clashes = [stores, reads and reads.clash]
            case _:
                stores, reads = self.shadow.atomic(starts, 1, number)
                clashes = [stores, reads and reads.clash]
        return {int(other) - 1 for clash in clashes if clash is not None for other in clash.programs}


def actions(programs: int) -> st.SearchStrategy[list[Action]]:
    what = st.sampled_from([LOAD, POLL, STORE, ATOMIC, ACQUIRE, RELEASE])
    return st.lists(st.tuples(what, st.integers(0, programs - 1), st.integers(0, CELLS - 1)), max_size=30)


@given(actions(4))
def test_ordered_accesses_never_conflict(trace: list[Action]) -> None:
    history, shadowed = History(4), ShadowedHistory(4)
    for action in trace:
        assert shadowed.act(*action) <= history.act(*action)


@example([(ATOMIC, 0, 1), (ATOMIC, 1, 1), (LOAD, 1, 1)])
@example([(LOAD, 0, 0), (POLL, 0, 0), (ATOMIC, 1, 0)])
@given(actions(2))
def test_unordered_accesses_of_two_programs_are_reported(trace: list[Action]) -> None:
    history, shadowed = History(2), ShadowedHistory(2)
    for action in trace:
        races = history.act(*action)
        assert shadowed.act(*action) == races
        if races:
            return  # the first race only: it may hide later ones


def test_a_plain_store_ends_releases_to_its_bytes() -> None:
    clocks = Clocks(2)
    clocks.release(1, [(ADDRESS, 0), (ADDRESS, 8)])
    clocks.forget(ADDRESS, np.array([4]), 4)
    clocks.forget(ADDRESS + 64, np.array([0]), 16)
    clocks.forget(ADDRESS, np.array([6]), 4)
    clocks.acquire(2, [(ADDRESS, 0)])
    assert clocks.seen(2).tolist() == [0, 1, 0]
    clocks.forget(ADDRESS, np.array([0]), 4)
    other = Clocks(2)
    other.release(1, [(ADDRESS, 8)])
    other.forget(ADDRESS, np.array([6]), 4)
    other.acquire(2, [(ADDRESS, 8)])
    assert other.seen(2).tolist() == [0, 0, 0]


def test_cells_keep_their_history_when_split() -> None:
    shadowed = ShadowedHistory(2)
    shadowed.act(STORE, 0, 1)
    shadowed.shadow.refine(2)
    clash = shadowed.shadow.load(np.array([1]), 3, np.array([2], np.int32), 5)
    assert clash is not None
    assert (clash.columns.tolist(), clash.programs.tolist()) == ([1, 2], [1, 1])
