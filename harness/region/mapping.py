"""Mapping the region of a finding: where around its smallest case the failure shows, and the rule behind it.

The work has parts, each with its share of the seconds and points: the borders on each dim, every setting that is no
size, the borders on the SM counts, sizes beside multiples, the plot's plane, and then points chosen to tell apart the
rules that still agree with everything seen.  A part that runs out of time leaves what it found; so does an interrupt.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from harness.errors import UsageError
from harness.model.case import Case, Scale
from harness.model.op import Op
from harness.model.region import SMS, Axis, AxisKind, Bound, Ended, Point, Region, Setting, Sizes, bound_of, sizes_of
from harness.model.run import Run
from harness.model.verdict import Outcome, Signature
from harness.region.axes import at, changes, config_told, numeric_axes
from harness.region.plane import UndecidedArea, columns, common_rows, disputed, places, plane_of, rows, usual_plane
from harness.region.points import Looker, PointResult
from harness.region.rules import rules
from harness.region.size_probes import Road, Walk, borders, related, residues
from harness.search.sort_key import elements
from harness.search.strategies import RARE_ELEMENTS

MOST_SM_COUNTS = 12
"""Fork servers started in all; each takes seconds, and a plot has no room for more columns."""
BORDERS, SETTINGS, BORDERS_OF_SMS, RESIDUES, PLOT, WHOLE = 0.25, 0.4, 0.5, 0.65, 0.85, 1.0
"""When, as a share of seconds and points, each part makes room for the next."""
BATCH = 3
"""Points tried before rules are sought anew."""
ROUNDS = 40
CHECKS = 12
"""Points tried at random once no two rules disagree any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingLimits:
    """How much work one map may be."""

    points: int = 300
    seconds: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedFailure:
    """What is mapped.

    Raises:
        UsageError: the op has no sizes, and so nothing around them.
    """

    finding: str
    op: Op
    case: Case
    signature: Signature
    axes: tuple[str, str] | None = None
    """The plot's, up and across; the two that matter where None."""
    libraries: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if not self.op.dims:
            raise UsageError(
                f"{self.op.id} declares no dims: a region is mapped around the sizes of a case, and here are none"
            )


class Mapper:
    """Makes the map of one finding; what it knows so far can be asked for at any time."""

    def __init__(
        self, subject: MappedFailure, looker: Looker, limits: MappingLimits, tell: Callable[[str], None]
    ) -> None:
        self._subject = subject
        self._looker = looker
        self._limits = limits
        self._tell = tell
        self._begun = time.monotonic()
        self._axes = numeric_axes(subject.op, subject.case)
        self._start = sizes_of(subject.case)
        self._points: dict[tuple[int, ...], Point] = {}
        self._settings: list[Setting] = []
        self._sm_counts = set[int]()
        self._most_elements = max(RARE_ELEMENTS, elements(subject.op, subject.case))
        self._ended: Ended | None = None
        """None until the map is finished."""

    def run(self) -> None:
        """Make the map, until nothing is left to ask or a limit is reached."""
        first = self._look(self._subject.case)
        self._keep(self._start, first)
        if first.outcome is not Outcome.FAIL:
            self._ended = Ended.NOT_SHOWN
            return
        *dims, sm_counts = map(self._road, self._axes)
        for number, road in enumerate(dims, 1):
            self._follow(borders(road), road, BORDERS * number / len(dims))
        self._try_settings(first.run)
        self._follow(borders(sm_counts), sm_counts, BORDERS_OF_SMS)
        for road in (*dims, sm_counts):
            self._follow(residues(road, self._known_on(road.axis)), road, RESIDUES)
        self._fill_plane()
        self._tell_rules_apart()
        self._ended = self._limit_reached() or Ended.COMPLETE

    def region(self) -> Region:
        """What is known so far; interrupted, where `run` has not come to its end."""
        up, across = self._subject.axes or usual_plane(self._bounds())
        if up == SMS:
            up, across = across, up
        points = tuple(self._points.values())
        return Region(
            finding=self._subject.finding,
            signature=self._subject.signature,
            case=self._subject.case,
            axes=self._axes,
            plane=(across, up),
            points=points,
            settings=tuple(self._settings),
            rule=next(iter(rules(points, self._looker.vocabulary)), None),
            compared_with=self._looker.compared_with or (),
            seconds=time.monotonic() - self._begun,
            ended=self._ended or Ended.INTERRUPTED,
            libraries=self._subject.libraries,
            versions=self._subject.versions,
        )

    # --- the parts ---------------------------------------------------------------------------------------------------

    def _road(self, axis: Axis) -> Road:
        likely = related(axis, self._start, self._looker.vocabulary.moduli)
        return Road(axis=axis, start=self._start, likely=likely, legal=self._is_legal)

    def _known_on(self, axis: Axis) -> Mapping[int, Outcome]:
        return {
            point.at[axis.name]: point.outcome
            for point in self._points.values()
            if {**point.at, axis.name: 0} == {**self._start, axis.name: 0}
        }

    def _try_settings(self, first: Run) -> None:
        subject = self._subject
        for change in changes(subject.op, subject.case, first, subject.signature.kernel):
            if self._is_spent(SETTINGS):
                return
            look = self._look(change.case)
            told = [config_told(launch) for launch in look.run.launches if launch.kernel == change.axis.name]
            value = told[0] if told and change.axis.kind is AxisKind.CONFIG else change.value
            self._settings.append(Setting(axis=change.axis, value=value, outcome=look.outcome, reason=look.reason))

    def _fill_plane(self) -> None:
        """Column by column, since those of SM counts each have a process of their own."""
        plane = plane_of(self._subject.axes or usual_plane(self._bounds()), self._axes, self._start)
        across, up = plane.across, plane.up
        vocabulary = self._looker.vocabulary
        likely = related(across, self._start, sorted(vocabulary.named))
        common = common_rows(plane, self._bound(up), self._tried(up))
        for column in columns(plane, self._bound(across), self._tried(across), likely):
            for row in dict.fromkeys((*common, *rows(plane, column, vocabulary))):
                if self._is_spent(PLOT):
                    return
                self._point(plane.at(column, row))

    def _tell_rules_apart(self) -> None:
        plane = plane_of(self._subject.axes or usual_plane(self._bounds()), self._axes, self._start)
        random = Random(self._subject.case.seed)  # noqa: S311 -- a choice of points, not a secret
        checks = CHECKS
        for _ in range(ROUNDS):
            vocabulary = self._looker.vocabulary
            known = rules(self._points.values(), vocabulary)
            tried = {axis.name: self._tried(axis) for axis in self._axes}
            ground = UndecidedArea(
                plane=plane, axes=self._axes, columns=tried[plane.across.name], tried=tried, legal=self._is_legal
            )
            fresh = [
                sizes for sizes in places(ground, vocabulary, known, random) if self._key(sizes) not in self._points
            ]
            chosen = disputed(known, fresh, BATCH)
            if not chosen:
                chosen = tuple(random.sample(fresh, min(BATCH, checks, len(fresh))))
                checks -= len(chosen)
            for sizes in chosen:
                if self._is_spent(WHOLE):
                    return
                self._point(sizes)
            if not chosen:
                return

    # --- points ------------------------------------------------------------------------------------------------------

    def _follow(self, walk: Walk, road: Road, share: float) -> None:
        """Answer a walk's questions until it has none left or its share is used up."""
        size = next(walk, None)
        while size is not None and not self._is_spent(share):
            outcome = self._point(road.place(size))
            try:
                size = walk.send(outcome)
            except StopIteration:
                return

    def _point(self, sizes: Sizes) -> Outcome:
        """What a place shows; places that are not legal, and SM counts beyond those afforded, abstain unrecorded."""
        known = self._points.get(self._key(sizes))
        if known is not None:
            return known.outcome
        if not self._is_legal(sizes):
            return Outcome.ABSTAIN
        return self._keep(sizes, self._look(at(self._subject.case, sizes)))

    def _keep(self, sizes: Sizes, look: PointResult) -> Outcome:
        self._sm_counts.add(sizes[SMS])
        self._points[self._key(sizes)] = Point(at=sizes, outcome=look.outcome, reason=look.reason)
        return look.outcome

    def _look(self, case: Case) -> PointResult:
        sizes = " ".join(f"{name}={size}" for name, size in sizes_of(case).items())
        self._tell(f"{len(self._points) + len(self._settings)} points, next {sizes}")
        return self._looker.look(case)

    def _is_legal(self, sizes: Sizes) -> bool:
        subject = self._subject
        if sizes[SMS] not in self._sm_counts and len(self._sm_counts) >= MOST_SM_COUNTS:
            return False
        case = at(subject.case, sizes)
        if not all(axis.has(sizes[axis.name]) for axis in self._axes) or not subject.op.allows(case):
            return False
        return case.scale is Scale.GIANT or elements(subject.op, case) <= self._most_elements

    def _is_spent(self, share: float) -> bool:
        return self._limit_reached(share) is not None

    def _limit_reached(self, share: float = WHOLE) -> Ended | None:
        if time.monotonic() - self._begun >= share * self._limits.seconds:
            return Ended.SECONDS
        if len(self._points) + len(self._settings) >= share * self._limits.points:
            return Ended.POINTS
        return None

    def _key(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(sizes[axis.name] for axis in self._axes)

    def _axis(self, name: str) -> Axis:
        return next(axis for axis in self._axes if axis.name == name)

    def _tried(self, axis: Axis) -> tuple[int, ...]:
        """The sizes on an axis that were tried anywhere, ascending."""
        return tuple(sorted({point.at[axis.name] for point in self._points.values()}))

    def _bound(self, axis: Axis) -> Bound:
        return bound_of(axis, self._start, self._points.values())

    def _bounds(self) -> tuple[Bound, ...]:
        return tuple(map(self._bound, self._axes))
