"""The region of a finding: where around its smallest case it shows, where it does not, and what tells the two apart.

Owns the nouns and what follows from them by counting.  Which cases are tried is `harness.region.mapping`'s business.
Nothing here is proven: a bound or a rule says no more than that every point that was tried agrees with it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.model.case import Case
from harness.model.verdict import Outcome, Signature

SMS = "SMs"
"""The name of the axis of SM counts, among the names of dims."""

Sizes = Mapping[str, int]
"""By the name of each numeric axis, where on it a point lies: `{"T": 2, "D": 1, "SMs": 188}`."""


class AxisKind(StrEnum):
    """What of a case an axis changes."""

    DIM = "dim"
    SM_COUNT = "sm-count"
    CONFIG = "config"
    DTYPE = "dtype"
    OPTION = "option"
    ABSENT = "absent"
    LAYOUT = "layout"
    VALUES = "values"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One thing that is changed while the rest of the smallest case stays."""

    kind: AxisKind
    name: str
    """A dim, `SMs`, a kernel (of its configs), an option or an input; `dtype` and `values` are called that."""
    low: int = 0
    high: int = 0
    """The inclusive range of a dim or of the SM counts; 0 and 0 for the other kinds."""
    choices: tuple[int, ...] = ()
    """Only these, where given; ascending."""
    is_open: bool = False
    """Larger numbers make sense, too: `high` is where the search has to stop somewhere."""

    def has(self, size: int) -> bool:
        """Whether a number lies on the axis."""
        return size in self.choices if self.choices else self.low <= size <= self.high

    def adjacent(self, one: int, other: int) -> bool:
        """Whether no number of the axis lies between."""
        if self.choices:
            return not any(min(one, other) < size < max(one, other) for size in self.choices)
        return abs(one - other) <= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The smallest case with other sizes, and what it showed.

    The outcome is about the finding's own failure: another one abstains, as does a case that could not be judged.
    """

    at: Sizes
    outcome: Outcome
    reason: str = ""
    """Why it abstained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The smallest case with one thing changed that is no size, or as it is; and what it showed."""

    axis: Axis
    value: str
    """In words: `bf16`, `BT: 64, num_warps: 4`, `given`."""
    outcome: Outcome
    reason: str = ""


# --- rules -----------------------------------------------------------------------------------------------------------


class Rounding(StrEnum):
    """How a quotient becomes a whole number."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A number that follows from sizes: `64`, `T`, `16 x SMs`, `T x D`, `T / SMs, rounded up`.

    `T / (SMs / G), each rounded up`, is what a program gets where the SMs are shared out among groups first.
    """

    factor: int = 1
    size: str = ""
    """Empty for a constant."""
    times: str = ""
    over: str = ""
    shared_by: str = ""
    """What the divisor is divided by before, rounding up; of account only where there is one."""
    rounding: Rounding = Rounding.UP
    label: str = ""
    """What the kernel calls the factor: `BT`."""

    def of(self, sizes: Sizes) -> int:
        """The number at a point."""
        value = self.factor * (sizes[self.size] if self.size else 1) * (sizes[self.times] if self.times else 1)
        if not self.over:
            return value
        divisor = -(-sizes[self.over] // sizes[self.shared_by]) if self.shared_by else sizes[self.over]
        return -(-value // divisor) if self.rounding is Rounding.UP else value // divisor

    def __str__(self) -> str:
        number = f"{self.factor} ({self.label})" if self.label else str(self.factor)
        parts = [number] if self.factor != 1 or not self.size else []
        text = " x ".join([*parts, *(name for name in (self.size, self.times) if name)])
        if self.shared_by:
            return f"{text} / ({self.over} / {self.shared_by}), each rounded up,"
        return f"{text} / {self.over}, rounded {self.rounding}," if self.over else text


class Relation(StrEnum):
    """What a condition says of its two terms, or of the first alone."""

    ABOVE = ">"
    BELOW = "<"
    AT_LEAST = ">="
    AT_MOST = "<="
    EQUAL = "="
    MULTIPLE = "is a multiple of"
    NO_MULTIPLE = "is no multiple of"
    POWER = "is a power of two"
    NO_POWER = "is no power of two"


HOLDS: Mapping[Relation, Callable[[int, int], bool]] = {
    Relation.ABOVE: lambda left, right: left > right,
    Relation.BELOW: lambda left, right: left < right,
    Relation.AT_LEAST: lambda left, right: left >= right,
    Relation.AT_MOST: lambda left, right: left <= right,
    Relation.EQUAL: lambda left, right: left == right,
    Relation.MULTIPLE: lambda left, right: right != 0 and left % right == 0,
    Relation.NO_MULTIPLE: lambda left, right: right == 0 or left % right != 0,
    Relation.POWER: lambda left, _: left > 0 and left & (left - 1) == 0,
    Relation.NO_POWER: lambda left, _: left <= 0 or left & (left - 1) != 0,
}
"""What each relation says of the numbers that its terms are."""
_ALONE = frozenset({Relation.POWER, Relation.NO_POWER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that may be true of a point."""

    left: Term
    relation: Relation
    right: Term = field(default_factory=Term)
    """Of no account where the relation is about one term."""

    def holds(self, sizes: Sizes) -> bool:
        """Whether it is true at a point."""
        return HOLDS[self.relation](self.left.of(sizes), self.right.of(sizes))

    def __str__(self) -> str:
        words = f"{self.left} {self.relation}"
        return words if self.relation in _ALONE else f"{words} {self.right}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What tells the points that fail from those that pass."""

    conditions: tuple[Condition, ...]
    """All of them hold; none, where every point fails."""
    unless: bool = False
    """It is the points that pass at which they hold."""

    def fails(self, sizes: Sizes) -> bool:
        """What the rule says of a point."""
        return all(condition.holds(sizes) for condition in self.conditions) is not self.unless

    def __str__(self) -> str:
        if not self.conditions:
            return "fails everywhere"
        *most, last = map(str, self.conditions)
        return f"fails {'unless' if self.unless else 'when'} {', '.join(most)}{' and ' if most else ''}{last}"


# --- bounds ----------------------------------------------------------------------------------------------------------


class Beyond(StrEnum):
    """What lies beyond the last failing size on one side."""

    NOTHING = "nothing"
    """The axis ends there."""
    PASSES = "passes"
    ABSTAINS = "abstains"
    UNTRIED = "untried"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionEdge:
    """Where, on one side of the smallest case, an axis stops failing."""

    last: int
    """The farthest size with nothing but failures on the way to it."""
    beyond: Beyond
    next: int
    """The nearest size tried beyond it; `last` itself where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How far the failure reaches along one numeric axis from the smallest case, as found."""

    axis: Axis
    below: RegionEdge
    above: RegionEdge
    tried: int
    failed: int
    passed: int


def bound_of(axis: Axis, start: Sizes, points: Iterable[Point]) -> Bound:
    """The bound along an axis, from the points that lie on it."""
    others = {name: size for name, size in start.items() if name != axis.name}
    on_it = {
        point.at[axis.name]: point.outcome
        for point in points
        if all(point.at[name] == size for name, size in others.items())
    }
    outcomes = list(on_it.values())
    return Bound(
        axis=axis,
        below=_edge(axis, start[axis.name], on_it, -1),
        above=_edge(axis, start[axis.name], on_it, 1),
        tried=len(outcomes),
        failed=outcomes.count(Outcome.FAIL),
        passed=outcomes.count(Outcome.PASS),
    )


def _edge(axis: Axis, start: int, on_it: Mapping[int, Outcome], side: int) -> RegionEdge:
    end = axis.high if side > 0 else axis.low
    last = start
    for size in sorted((size for size in on_it if (size - start) * side > 0), key=lambda size: size * side):
        if on_it[size] is not Outcome.FAIL:
            beyond = Beyond.PASSES if on_it[size] is Outcome.PASS else Beyond.ABSTAINS
            return RegionEdge(last=last, beyond=beyond, next=size)
        last = size
    return RegionEdge(last=last, beyond=Beyond.NOTHING if last == end else Beyond.UNTRIED, next=last)


# --- all of it -------------------------------------------------------------------------------------------------------


class Ended(StrEnum):
    """Why no further point was tried."""

    COMPLETE = "complete"
    POINTS = "points"
    """As many were tried as were allowed."""
    SECONDS = "seconds"
    INTERRUPTED = "interrupted"
    NOT_SHOWN = "not shown"
    """The smallest case does not show the failure any more; there is nothing to map."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """What is known of where a finding shows."""

    finding: str
    """Its id."""
    signature: Signature
    case: Case
    """The smallest case, in the middle of the map."""
    axes: tuple[Axis, ...]
    """The numeric ones: dims, and last the SM counts."""
    plane: tuple[str, str]
    """The names of the axes of the plot, across and up: `("SMs", "T")`."""
    points: tuple[Point, ...]
    rule: Rule | None
    """The simplest rule that every point agrees with; None where none of the vocabulary does."""
    settings: tuple[Setting, ...] = ()
    compared_with: tuple[int, ...] = ()
    """SM counts that every point was compared with, for a promise that is about two of them."""
    seconds: float
    ended: Ended
    libraries: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def start(self) -> Sizes:
        """Where the smallest case lies."""
        return sizes_of(self.case)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """One for each numeric axis."""
        return tuple(bound_of(axis, self.start, self.points) for axis in self.axes)

    @property
    def in_plane(self) -> tuple[Point, ...]:
        """The points of the plot: those that differ from the smallest case in its two axes alone."""
        start = self.start
        return tuple(
            point
            for point in self.points
            if all(point.at[name] == size for name, size in start.items() if name not in self.plane)
        )

    def count(self, outcome: Outcome) -> int:
        """How many points have an outcome."""
        return sum(point.outcome is outcome for point in self.points)


def sizes_of(case: Case) -> Sizes:
    """Where a case lies on the numeric axes."""
    return {**case.dims, SMS: case.device.sm_count}
