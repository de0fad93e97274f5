"""Map the region of a finding: the sizes and settings around its smallest case that fail, and a rule for them.

The work has six parts, and each may use seconds and points up to its share:

1. the borders of the failure on each dim
2. every setting that is not a size
3. the borders on the SM counts
4. sizes next to multiples of tiles and of other sizes
5. the plane of the plot
6. points that distinguish the rules which agree with all points so far

A part that runs out of time keeps what it found.  So does an interrupt.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from harness.errors import UsageError
from harness.findings.region.axes import case_at, config_text, numeric_axes, setting_changes
from harness.findings.region.plane import (
    UndecidedArea,
    candidate_points,
    columns,
    common_rows,
    disputed,
    plane_of,
    rows,
    usual_plane,
)
from harness.findings.region.points import PointChecker, PointResult
from harness.findings.region.rules import rules
from harness.findings.region.size_probes import AxisLine, SizeProbe, border_probe, likely_sizes, residue_probe
from harness.model.case import Case, Scale
from harness.model.op import Op
from harness.model.region import SMS, Axis, AxisKind, Bound, Ended, Point, Region, Setting, Sizes, bound_of, sizes_of
from harness.model.run import Run
from harness.model.verdict import Outcome, Signature
from harness.search.sort_key import elements
from harness.search.strategies import RARE_ELEMENTS
from harness.wording import counted

MAX_SM_COUNTS = 12
"""How many SM counts are tried.  Each needs a fork server, which takes seconds; a plot has no room for more columns."""
BORDERS_UNTIL, SETTINGS_UNTIL, SM_BORDERS_UNTIL, RESIDUES_UNTIL, PLOT_UNTIL, END = 0.25, 0.4, 0.5, 0.65, 0.85, 1.0
"""The share of seconds and points, 0 to 1, at which each part ends."""
BATCH = 3
"""How many points are tried before the rules are computed again."""
ROUNDS = 40
"""How often the rules are computed again at most."""
CHECKS = 12
"""How many points are tried at random once all rules agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingLimits:
    """How many points and seconds one map may take."""

    points: int = 300
    seconds: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedFailure:
    """The failure to map.

    Raises:
        UsageError: the op declares no dims.
    """

    finding: str
    op: Op
    case: Case
    signature: Signature
    axes: tuple[str, str] | None = None
    """The plot's vertical and horizontal axis; None chooses the two that matter."""
    libraries: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if not self.op.dims:
            raise UsageError(
                f"{self.op.id} declares no dims: a region is mapped around the sizes of a case, and this one has none"
            )


class Mapper:
    """Maps one finding; `region` returns what is known so far at any time."""

    def __init__(
        self, subject: MappedFailure, checker: PointChecker, limits: MappingLimits, report: Callable[[str], None]
    ) -> None:
        self._subject = subject
        self._checker = checker
        self._limits = limits
        self._report = report
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
        """Map the region until nothing is left to try or a limit is reached."""
        first = self._check(self._subject.case)
        self._keep(self._start, first)
        if first.outcome is not Outcome.FAIL:
            self._ended = Ended.NOT_SHOWN
            return
        *dims, sm_counts = map(self._line, self._axes)
        for number, line in enumerate(dims, 1):
            self._follow(border_probe(line), line, BORDERS_UNTIL * number / len(dims))
        self._try_settings(first.run)
        self._follow(border_probe(sm_counts), sm_counts, SM_BORDERS_UNTIL)
        for line in (*dims, sm_counts):
            self._follow(residue_probe(line, self._known_on(line.axis)), line, RESIDUES_UNTIL)
        self._fill_plane()
        self._distinguish_rules()
        self._ended = self._limit_reached() or Ended.COMPLETE

    def region(self) -> Region:
        """Return what is known so far.  The stop reason is INTERRUPTED unless `run` has returned."""
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
            rule=next(iter(rules(points, self._checker.vocabulary)), None),
            compared_sm_counts=self._checker.compared_sm_counts or (),
            seconds=time.monotonic() - self._begun,
            stop_reason=self._ended or Ended.INTERRUPTED,
            libraries=self._subject.libraries,
            versions=self._subject.versions,
        )

    # --- the parts ---------------------------------------------------------------------------------------------------

    def _line(self, axis: Axis) -> AxisLine:
        likely = likely_sizes(axis, self._start, self._checker.vocabulary.moduli)
        return AxisLine(axis=axis, start=self._start, likely=likely, is_allowed=self._is_legal)

    def _known_on(self, axis: Axis) -> Mapping[int, Outcome]:
        return {
            point.sizes[axis.name]: point.outcome
            for point in self._points.values()
            if {**point.sizes, axis.name: 0} == {**self._start, axis.name: 0}
        }

    def _try_settings(self, first: Run) -> None:
        subject = self._subject
        for change in setting_changes(subject.op, subject.case, first, subject.signature.kernel):
            if self._is_spent(SETTINGS_UNTIL):
                return
            result = self._check(change.case)
            # A config has a name only once it has run.
            configs = [config_text(launch) for launch in result.run.launches if launch.kernel == change.axis.name]
            value = configs[0] if configs and change.axis.kind is AxisKind.CONFIG else change.value
            self._settings.append(Setting(axis=change.axis, value=value, outcome=result.outcome, reason=result.reason))

    def _fill_plane(self) -> None:
        """Fill the plot column by column: a column of one SM count keeps to one process."""
        plane = plane_of(self._subject.axes or usual_plane(self._bounds()), self._axes, self._start)
        across, up = plane.across, plane.up
        vocabulary = self._checker.vocabulary
        likely = likely_sizes(across, self._start, sorted(vocabulary.named))
        common = common_rows(plane, self._bound(up), self._tried(up))
        for column in columns(plane, self._bound(across), self._tried(across), likely):
            for row in dict.fromkeys((*common, *rows(plane, column, vocabulary))):
                if self._is_spent(PLOT_UNTIL):
                    return
                self._outcome_at(plane.sizes_at(column, row))

    def _distinguish_rules(self) -> None:
        plane = plane_of(self._subject.axes or usual_plane(self._bounds()), self._axes, self._start)
        random = Random(self._subject.case.seed)  # noqa: S311 -- a choice of points, not a secret
        checks = CHECKS
        for _ in range(ROUNDS):
            vocabulary = self._checker.vocabulary
            candidates = rules(self._points.values(), vocabulary)
            tried = {axis.name: self._tried(axis) for axis in self._axes}
            area = UndecidedArea(
                plane=plane, axes=self._axes, columns=tried[plane.across.name], tried=tried, is_allowed=self._is_legal
            )
            new = [
                sizes
                for sizes in candidate_points(area, vocabulary, candidates, random)
                if self._key(sizes) not in self._points
            ]
            chosen = disputed(candidates, new, BATCH)
            if not chosen:
                chosen = tuple(random.sample(new, min(BATCH, checks, len(new))))
                checks -= len(chosen)
            for sizes in chosen:
                if self._is_spent(END):
                    return
                self._outcome_at(sizes)
            if not chosen:
                return

    # --- points ------------------------------------------------------------------------------------------------------

    def _follow(self, probe: SizeProbe, line: AxisLine, share: float) -> None:
        """Run a probe until it ends or its share is used up."""
        size = next(probe, None)
        while size is not None and not self._is_spent(share):
            outcome = self._outcome_at(line.sizes_at(size))
            try:
                size = probe.send(outcome)
            except StopIteration:
                return

    def _outcome_at(self, sizes: Sizes) -> Outcome:
        """Return the outcome at a point.  An illegal point, or one on too many SM counts, abstains unrecorded."""
        known = self._points.get(self._key(sizes))
        if known is not None:
            return known.outcome
        if not self._is_legal(sizes):
            return Outcome.ABSTAIN
        return self._keep(sizes, self._check(case_at(self._subject.case, sizes)))

    def _keep(self, sizes: Sizes, result: PointResult) -> Outcome:
        self._sm_counts.add(sizes[SMS])
        self._points[self._key(sizes)] = Point(sizes=sizes, outcome=result.outcome, reason=result.reason)
        return result.outcome

    def _check(self, case: Case) -> PointResult:
        sizes = " ".join(f"{name}={size}" for name, size in sizes_of(case).items())
        self._report(f"{counted(len(self._points) + len(self._settings), 'point')}, next {sizes}")
        return self._checker.check(case)

    def _is_legal(self, sizes: Sizes) -> bool:
        subject = self._subject
        if sizes[SMS] not in self._sm_counts and len(self._sm_counts) >= MAX_SM_COUNTS:
            return False
        case = case_at(subject.case, sizes)
        if not all(axis.has(sizes[axis.name]) for axis in self._axes) or not subject.op.allows(case):
            return False
        return case.scale is Scale.OVERSIZED or elements(subject.op, case) <= self._most_elements

    def _is_spent(self, share: float) -> bool:
        return self._limit_reached(share) is not None

    def _limit_reached(self, share: float = END) -> Ended | None:
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
        """Return the sizes on an axis that were tried anywhere, ascending."""
        return tuple(sorted({point.sizes[axis.name] for point in self._points.values()}))

    def _bound(self, axis: Axis) -> Bound:
        return bound_of(axis, self._start, self._points.values())

    def _bounds(self) -> tuple[Bound, ...]:
        return tuple(map(self._bound, self._axes))
