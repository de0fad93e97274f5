"""The region of a finding: the sizes around its smallest case that show it, and a rule that describes them.

This file has the values and what follows from them by counting; `harness.findings.region.mapping` chooses which cases
to try.  Nothing here is proven: every tried point agrees with a bound or a rule, and no more is known.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.model.case import Case
from harness.model.verdict import Outcome, Signature

SMS = "SMs"
"""The name of the axis of SM counts, among the names of dims."""

Sizes = Mapping[str, int]
"""A point's position on each numeric axis: `{"T": 2, "D": 1, "SMs": 188}`."""


class AxisKind(StrEnum):
    """The part of a case that an axis changes."""

    DIM = "dim"
    SM_COUNT = "sm-count"
    CONFIG = "config"
    DTYPE = "dtype"
    OPTION = "option"
    ABSENT = "absent"
    GRAD_MODE = "grad-mode"
    GRADIENT = "gradient"
    """The gradient of an input: wanted or not."""
    LAYOUT = "layout"
    VALUES = "values"
    CONTEXT = "context"
    """The thread, context or process that calls the op."""
    ENVIRONMENT = "environment"
    """An environment variable of the library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One part of the smallest case that varies while the rest stays."""

    kind: AxisKind
    name: str
    """The name of a dim, kernel (for its configs), option or input, or else a fixed word such as `SMs` or `values`."""
    low: int = 0
    high: int = 0
    """The inclusive range of a dim or of the SM counts; 0 and 0 for the other kinds."""
    choices: tuple[int, ...] = ()
    """If given, the only values; ascending."""
    is_open: bool = False
    """True if larger numbers are legal too: `high` is only where the search stops."""

    def has(self, size: int) -> bool:
        """Return True if the number is on the axis."""
        return size in self.choices if self.choices else self.low <= size <= self.high

    def adjacent(self, number: int, other: int) -> bool:
        """Return True if no number of the axis is between the two."""
        if self.choices:
            return not any(min(number, other) < size < max(number, other) for size in self.choices)
        return abs(number - other) <= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The smallest case with other sizes, and its outcome.

    The outcome concerns the finding's own failure.  A case with another failure abstains, as does an unchecked case.
    """

    sizes: Sizes
    outcome: Outcome
    reason: str = ""
    """The reason to abstain; empty otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The smallest case with at most one change that is no size, and its outcome."""

    axis: Axis
    value: str
    """The value in words: `bf16`, `BT: 64, num_warps: 4`, `given`."""
    outcome: Outcome
    reason: str = ""


# --- rules -----------------------------------------------------------------------------------------------------------


class Rounding(StrEnum):
    """The rounding of a quotient to a whole number."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A number that follows from sizes: `64`, `T`, `16 x SMs`, `T x D`, `T / SMs, rounded up`.

    `T / (SMs / G), each rounded up`, is the work of a program if the SMs are first divided among groups.
    """

    factor: int = 1
    size: str = ""
    """The name of a size; empty for a constant."""
    times: str = ""
    over: str = ""
    shared_by: str = ""
    """The size by which the divisor itself is divided, rounding up; ignored without a divisor."""
    rounding: Rounding = Rounding.UP
    label: str = ""
    """The kernel's name of the factor: `BT`."""

    def of(self, sizes: Sizes) -> int:
        """Return the number at a point."""
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
    """The relation between the two terms of a condition, or a property of the first."""

    ABOVE = ">"
    BELOW = "<"
    AT_LEAST = ">="
    AT_MOST = "<="
    EQUAL = "="
    DIFFERENT = "!="
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
    Relation.DIFFERENT: lambda left, right: left != right,
    Relation.MULTIPLE: lambda left, right: right != 0 and left % right == 0,
    Relation.NO_MULTIPLE: lambda left, right: right == 0 or left % right != 0,
    Relation.POWER: lambda left, _: left > 0 and left & (left - 1) == 0,
    Relation.NO_POWER: lambda left, _: left <= 0 or left & (left - 1) != 0,
}
"""The test of each relation on the numbers of its terms."""
_UNARY = frozenset({Relation.POWER, Relation.NO_POWER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A statement about a point."""

    left: Term
    relation: Relation
    right: Term = field(default_factory=Term)
    """Ignored if the relation has one term."""

    def holds(self, sizes: Sizes) -> bool:
        return HOLDS[self.relation](self.left.of(sizes), self.right.of(sizes))

    def __str__(self) -> str:
        words = f"{self.left} {self.relation}"
        return words if self.relation in _UNARY else f"{words} {self.right}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule that separates the points that fail from those that pass."""

    conditions: tuple[Condition, ...]
    """Conditions that all hold at failing points; empty if every point fails."""
    unless: bool = False
    """True if the conditions hold at the passing points instead."""

    def fails(self, sizes: Sizes) -> bool:
        """Return True if the point fails according to the rule."""
        return all(condition.holds(sizes) for condition in self.conditions) is not self.unless

    def __str__(self) -> str:
        if not self.conditions:
            return "fails everywhere"
        *most, last = map(str, self.conditions)
        return f"fails {'unless' if self.unless else 'when'} {', '.join(most)}{' and ' if most else ''}{last}"


# --- bounds ----------------------------------------------------------------------------------------------------------


class Beyond(StrEnum):
    """The outcome beyond the last failing size on one side."""

    NOTHING = "nothing"
    """The axis ends there."""
    PASSES = "passes"
    ABSTAINS = "abstains"
    UNTRIED = "untried"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionEdge:
    """The end of the failing sizes on one side of the smallest case."""

    last: int
    """The farthest size with only failures on the way to it."""
    beyond: Beyond
    next: int
    """The nearest tried size beyond it; `last` itself if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The extent of the failure along one numeric axis around the smallest case."""

    axis: Axis
    below: RegionEdge
    above: RegionEdge
    tried: int
    failed: int
    passed: int


def bound_of(axis: Axis, start: Sizes, points: Iterable[Point]) -> Bound:
    """Return the bound along an axis, from the points that differ from `start` on this axis only."""
    fixed = {name: size for name, size in start.items() if name != axis.name}
    on_it = {
        point.sizes[axis.name]: point.outcome
        for point in points
        if all(point.sizes[name] == size for name, size in fixed.items())
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
    """The reason for which no further point was tried."""

    COMPLETE = "complete"
    POINTS = "points"
    """The limit of points was reached."""
    SECONDS = "seconds"
    INTERRUPTED = "interrupted"
    NOT_SHOWN = "not shown"
    """The smallest case does not show the failure any more, so there is nothing to map."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """The known region of a finding."""

    finding: str
    """The finding's id."""
    signature: Signature
    case: Case
    """The smallest case, at the centre of the map."""
    axes: tuple[Axis, ...]
    """The numeric axes: dims, then SM counts."""
    plane: tuple[str, str]
    """The names of the plot's horizontal and vertical axes: `("SMs", "T")`."""
    points: tuple[Point, ...]
    rule: Rule | None
    """The simplest rule with which every point agrees; None if there is none."""
    settings: tuple[Setting, ...] = ()
    compared_sm_counts: tuple[int, ...] = ()
    """SM counts with which every point was compared, for promises about two SM counts."""
    seconds: float
    stop_reason: Ended
    libraries: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def start(self) -> Sizes:
        return sizes_of(self.case)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """One bound for each numeric axis."""
        return tuple(bound_of(axis, self.start, self.points) for axis in self.axes)

    @property
    def in_plane(self) -> tuple[Point, ...]:
        """The points of the plot: those that differ from the smallest case on its two axes only."""
        start = self.start
        return tuple(
            point
            for point in self.points
            if all(point.sizes[name] == size for name, size in start.items() if name not in self.plane)
        )

    def count(self, outcome: Outcome) -> int:
        return sum(point.outcome is outcome for point in self.points)


def sizes_of(case: Case) -> Sizes:
    """Return the position of a case on the numeric axes."""
    return {**case.dims, SMS: case.device.sm_count}
