"""Collects what memory sees during one launch and turns it into the run's memory events.

Events are gathered per kind, operation and argument as arrays of cells, and made into one value each at the launch's
end, so that a kernel with a million stray lanes costs no more to report than one with a single lane.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from harness.model.picture import ElementSpan, Spread
from harness.model.run import (
    Access,
    AccessSite,
    AddressSpace,
    AssertFailed,
    MemoryEvent,
    Misaligned,
    OrderDependence,
    Overlap,
    Source,
    Stray,
    Unaligned,
    UndefinedLanes,
    UninitialisedRead,
)
from harness.ops.error_map import share
from harness.virtual.memory.arguments import Argument
from harness.virtual.numbers.elements import Array

FIRST_CELLS = 4
KEPT_CELLS = 1 << 20


@dataclass(slots=True)
class _Cells:
    """Cells of one argument with two programs each; flat element indices."""

    elements: list[Array] = field(default_factory=list[Array])
    ours: list[Array] = field(default_factory=list[Array])
    others: list[Array] = field(default_factory=list[Array])
    kept: int = 0
    same_bytes: bool = True

    def add(self, elements: Array, ours: Array, others: Array) -> None:
        if self.kept < KEPT_CELLS:
            self.elements.append(elements)
            self.ours.append(ours)
            self.others.append(others)
            self.kept += len(elements)

    def join(self, more: "_Cells") -> None:
        for part in zip(more.elements, more.ours, more.others, strict=True):
            self.add(*part)
        self.same_bytes = self.same_bytes and more.same_bytes

    def unique(self) -> tuple[Array, int, int]:
        """Distinct elements in ascending order, and the two programs at the first: of several pairs the lowest."""
        elements = np.concatenate(self.elements)
        distinct = np.unique(elements)
        here = elements == distinct[0]
        pairs = zip(np.concatenate(self.ours)[here].tolist(), np.concatenate(self.others)[here].tolist(), strict=True)
        return distinct, *min(pairs)


@dataclass(slots=True)
class _StrayLanes:
    lanes: int
    program: int
    element: int
    """The first that this program touched."""
    lowest: int
    highest: int
    """Of all programs."""


Place = tuple[str, int]
"""An operation's location text and an argument's number."""
Meeting = tuple[Place, bool]
"""Where programs met, and whether one of them met the other by an atomic."""
StrayPlace = tuple[str, int, Access, AddressSpace]
"""The same, with what was done and where it landed."""


class EventCollector:
    """What memory saw in one launch."""

    def __init__(self) -> None:
        self._overlaps: dict[Meeting, _Cells] = {}
        self._dependences: dict[Meeting, _Cells] = {}
        self._uninitialised: dict[Place, _Cells] = {}
        self._strays: dict[StrayPlace, _StrayLanes] = {}
        self._undefined: dict[Place, int] = {}
        self._failed: dict[tuple[str, str], _StrayLanes] = {}
        """By an assertion's location and message."""
        self._misaligned: dict[tuple[Place, Unaligned], tuple[int, int]] = {}
        """The first program, and by how many bytes."""

    def overlap(
        self, place: Place, elements: Array, pairs: tuple[Array, Array], *, same_bytes: bool, atomic: bool = False
    ) -> None:
        """Elements that two programs stored, or the first of a pair stored and the other updated; counted from 0."""
        cells = self._overlaps.setdefault((place, atomic), _Cells())
        cells.add(elements, *pairs)
        cells.same_bytes = cells.same_bytes and same_bytes

    def dependence(
        self, place: Place, elements: Array, readers: Array, writers: Array, *, atomic: bool = False
    ) -> None:
        """Elements that one program read and another stored or updated."""
        self._dependences.setdefault((place, atomic), _Cells()).add(elements, readers, writers)

    @property
    def met(self) -> Array:
        """The programs of each pair that met, one pair a row, counted from 0."""
        cells = [cells for meetings in self.meetings for cells in meetings.values()]
        pairs = [
            np.stack((ours, others), 1) for one in cells for ours, others in zip(one.ours, one.others, strict=True)
        ]
        return np.concatenate([np.zeros((0, 2), np.int64), *pairs])

    @property
    def meetings(self) -> tuple[dict[Meeting, _Cells], dict[Meeting, _Cells]]:
        """Overlaps and dependences."""
        return self._overlaps, self._dependences

    def met_as(self, looks: Iterable["EventCollector"]) -> None:
        """Programs met where one of these looks at the same launch says so, and nowhere else."""
        self._overlaps, self._dependences = {}, {}
        for look in looks:
            for ours, theirs in zip(self.meetings, look.meetings, strict=True):
                for meeting, cells in theirs.items():
                    ours.setdefault(meeting, _Cells()).join(cells)

    def uninitialised(self, place: Place, elements: Array, programs: Array) -> None:
        """Elements read before anything wrote them."""
        self._uninitialised.setdefault(place, _Cells()).add(elements, programs, programs)

    def stray(self, place: StrayPlace, elements: Array, programs: Array, lanes_each: int) -> None:
        """Lanes that left what their argument covers, each standing for `lanes_each`; the lowest program is kept."""
        first = int(programs.argmin())
        at = int(elements[first])
        known = self._strays.setdefault(place, _StrayLanes(0, int(programs[first]), at, at, at))
        known.lanes += len(elements) * lanes_each
        known.lowest = min(known.lowest, int(elements.min()))
        known.highest = max(known.highest, int(elements.max()))
        if programs[first] < known.program:
            known.program, known.element = int(programs[first]), int(elements[first])

    def undefined(self, place: Place, lanes: int) -> None:
        """Lanes that a masked load without `other` left undefined."""
        self._undefined[place] = self._undefined.get(place, 0) + lanes

    def assertion(self, location: str, message: str, programs: Array, lanes: int) -> None:
        """An assertion that failed in these programs."""
        known = self._failed.setdefault((location, message), _StrayLanes(0, int(programs.min()), 0, 0, 0))
        known.lanes += lanes
        known.program = min(known.program, int(programs.min()))

    def misaligned(self, place: Place, what: Unaligned, programs: Array, off_by: Array) -> None:
        """Something of a tensor descriptor that is so many bytes from a multiple of 16 in these programs."""
        first = int(programs.argmin())
        found = int(programs[first]), int(off_by[first])
        self._misaligned[place, what] = min(self._misaligned.get((place, what), found), found)

    def finish(
        self, kernel: str, launch: int, arguments: list[Argument], sources: Callable[[str], Source | None]
    ) -> Iterator[MemoryEvent]:
        """The events as values, in a stable order; what native code tells too is sorted, as it meets it otherwise."""
        told = _Launched(kernel, launch, arguments, sources)
        yield from self._of_cells(told)
        for (location, argument, access, region), stray in self._strays.items():
            yield Stray(
                site=told.site((location, argument)),
                access=access,
                region=region,
                lanes=stray.lanes,
                program=stray.program,
                element=stray.element,
                where=_reach(arguments[argument], stray),
            )
        for place, lanes in sorted(self._undefined.items(), key=_by_place):
            yield UndefinedLanes(site=told.site(place), lanes=lanes)
        for (place, what), (program, off_by) in self._misaligned.items():
            yield Misaligned(site=told.site(place), what=what, off_by=off_by, program=program)
        for (location, message), failed in self._failed.items():
            site = AccessSite(kernel=kernel, launch=launch, argument="", source=sources(location))
            yield AssertFailed(site=site, message=message, lanes=failed.lanes, program=failed.program)

    def _of_cells(self, told: "_Launched") -> Iterator[Overlap | OrderDependence | UninitialisedRead]:
        """Those that tell of cells of a tensor."""
        for (place, atomic), cells in self._overlaps.items():
            distinct, ours, others = cells.unique()
            yield Overlap(
                site=told.site(place),
                same_bytes=cells.same_bytes,
                cells=len(distinct),
                first_cells=told.first_cells(place, distinct),
                programs=(ours, others) if atomic else (min(ours, others), max(ours, others)),
                atomic=atomic,
                where=told.spread(place, distinct),
            )
        for (place, atomic), cells in self._dependences.items():
            distinct, reader, writer = cells.unique()
            yield OrderDependence(
                site=told.site(place),
                cells=len(distinct),
                first_cells=told.first_cells(place, distinct),
                programs=(reader, writer),
                atomic=atomic,
                where=told.spread(place, distinct),
            )
        for place, cells in sorted(self._uninitialised.items(), key=_by_place):
            distinct, program, _ = cells.unique()
            yield UninitialisedRead(
                site=told.site(place),
                cells=len(distinct),
                first_cells=told.first_cells(place, distinct),
                program=program,
                where=told.spread(place, distinct),
            )


@dataclass(frozen=True, slots=True)
class _Launched:
    """The launch that events tell of, and how its places are told."""

    kernel: str
    launch: int
    arguments: list[Argument]
    sources: Callable[[str], Source | None]

    def site(self, place: Place) -> AccessSite:
        location, argument = place
        name = self.arguments[argument].name
        return AccessSite(kernel=self.kernel, launch=self.launch, argument=name, source=self.sources(location))

    def first_cells(self, place: Place, elements: Array) -> tuple[tuple[int, ...], ...]:
        argument = self.arguments[place[1]]
        return tuple(argument.index_of(int(element)) for element in elements[:FIRST_CELLS])

    def spread(self, place: Place, elements: Array) -> Spread | None:
        argument = self.arguments[place[1]]
        cells = argument.cells_of(elements)
        return share(argument.shape, cells) if len(cells) else None


def _reach(argument: Argument, stray: _StrayLanes) -> ElementSpan | None:
    if argument.buffer is None:
        return None
    before = argument.first_byte // argument.element_bytes
    return ElementSpan(
        shape=argument.shape,
        extent=argument.extent,
        storage=(-before, argument.buffer.size_bytes // argument.element_bytes - before),
        touched=(stray.lowest, stray.highest),
    )


def _by_place(item: tuple[Place, object]) -> Place:
    return item[0]
