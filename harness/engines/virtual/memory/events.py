"""Collects the observations of memory during one launch, and turns them into the run's memory events.

Events are gathered per kind, operation and argument, as arrays of cells.  Each group becomes one value at the end of
the launch.  So a million stray lanes cost no more to report than a single one.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from harness.engines.ttir.axis_claims import PlacedHint
from harness.engines.ttir.hint_statement import line_of_hint
from harness.engines.ttir.load_statement import is_unpadded_block_load
from harness.engines.virtual.memory.arguments import Argument
from harness.engines.virtual.numbers.elements import Array
from harness.execution.error_map import share
from harness.execution.poison import INTEGER_PATTERNS
from harness.model.picture import ElementSpan, Spread
from harness.model.run import (
    Access,
    AccessSite,
    AddressSpace,
    AssertFailed,
    FalseAssumption,
    FalseHint,
    HintBreach,
    MemoryEvent,
    Misaligned,
    NarrowAtomic,
    OrderDependence,
    Overlap,
    Source,
    Stray,
    Unaligned,
    UndefinedLanes,
    UninitialisedRead,
)

FIRST_CELLS = 4
"""Cells that an event shows by their index."""
WRAP = 1 << 32
"""The distance by which a 32-bit offset is wrong after it has overflowed once."""
NEAR = 1 << 16
"""Elements before and after a tensor where an access has an ordinary reason."""
KEPT_CELLS = 1 << 20
"""Cells after which a group takes no more, to bound memory."""


@dataclass(slots=True)
class _Cells:
    """Cells of one argument, as flat element numbers, with two programs each."""

    elements: list[Array] = field(default_factory=list[Array])
    ours: list[Array] = field(default_factory=list[Array])
    partners: list[Array] = field(default_factory=list[Array])
    kept: int = 0
    same_bytes: bool = True

    def add(self, elements: Array, ours: Array, partners: Array) -> None:
        if self.kept < KEPT_CELLS:
            self.elements.append(elements)
            self.ours.append(ours)
            self.partners.append(partners)
            self.kept += len(elements)

    def join(self, more: "_Cells") -> None:
        for part in zip(more.elements, more.ours, more.partners, strict=True):
            self.add(*part)
        self.same_bytes = self.same_bytes and more.same_bytes

    def unique(self) -> tuple[Array, int, int]:
        """Return the distinct elements in ascending order, and the lowest pair of programs at the first of them."""
        elements = np.concatenate(self.elements)
        distinct = np.unique(elements)
        here = elements == distinct[0]
        pairs = zip(np.concatenate(self.ours)[here].tolist(), np.concatenate(self.partners)[here].tolist(), strict=True)
        return distinct, *min(pairs)


@dataclass(slots=True)
class _StrayLanes:
    lanes: int
    program: int
    element: int
    """The first element that this program touched."""
    lowest: int
    highest: int
    """The highest element that any program touched."""


@dataclass(slots=True)
class _Broken:
    lanes: int
    program: int
    seen: tuple[int, ...]
    """As in `FalseHint`, of the program's first group."""


@dataclass(frozen=True, slots=True)
class BrokenGroups:
    """Groups of lanes that one access cannot join, as arrays with an entry for each group."""

    programs: Array
    seen: tuple[Array, ...]
    lanes_each: int
    """How many groups of the programs' whole blocks one entry stands for."""


Place = tuple[str, int]
"""An operation's location text and an argument's number."""
ConflictKey = tuple[Place, bool]
"""The place of a conflict, and True if one of the two accesses is an atomic."""
_Key = TypeVar("_Key", bound=Hashable)
StrayKey = tuple[str, int, Access, AddressSpace]
"""A location text, an argument's number, the kind of access, and the region where it landed."""


class EventCollector:
    """The observations of memory in one launch."""

    def __init__(self) -> None:
        self._overlaps: dict[ConflictKey, _Cells] = {}
        self._dependences: dict[ConflictKey, _Cells] = {}
        self._narrow: dict[Place, _Cells] = {}
        self._uninitialised: dict[Place, _Cells] = {}
        self._strays: dict[StrayKey, _StrayLanes] = {}
        self._undefined: dict[Place, int] = {}
        self._failed: dict[tuple[str, str], _StrayLanes] = {}
        """By the location and message of an assertion."""
        self._false: dict[str, _StrayLanes] = {}
        """By the location of an assumption."""
        self._hints: dict[tuple[Place, PlacedHint, HintBreach, int], _Broken] = {}
        """By the place of an access, a hint, and how many lanes it joins."""
        self._misaligned: dict[tuple[Place, Unaligned], tuple[int, int]] = {}
        """The first program, and its distance from alignment in bytes."""

    def overlap(
        self, place: Place, elements: Array, pairs: tuple[Array, Array], *, same_bytes: bool, atomic: bool = False
    ) -> None:
        """Record elements that two programs stored, or that the first of a pair stored and the other updated.

        Programs are counted from 0.
        """
        cells = self._overlaps.setdefault((place, atomic), _Cells())
        cells.add(elements, *pairs)
        cells.same_bytes = cells.same_bytes and same_bytes

    def dependence(
        self, place: Place, elements: Array, readers: Array, writers: Array, *, atomic: bool = False
    ) -> None:
        """Record elements that one program read and another stored or updated."""
        self._dependences.setdefault((place, atomic), _Cells()).add(elements, readers, writers)

    @property
    def conflicting_programs(self) -> Array:
        """The programs of each conflict, one pair per row, counted from 0."""
        groups = [cells for conflicts in self.conflicts for cells in conflicts.values()]
        pairs = [
            np.stack((ours, partners), 1)
            for cells in groups
            for ours, partners in zip(cells.ours, cells.partners, strict=True)
        ]
        return np.concatenate([np.zeros((0, 2), np.int64), *pairs])

    @property
    def conflicts(self) -> tuple[dict[ConflictKey, _Cells], dict[ConflictKey, _Cells]]:
        """Overlaps and dependences."""
        return self._overlaps, self._dependences

    def replace_conflicts(self, rechecks: Iterable["EventCollector"]) -> None:
        """Replace the overlaps and dependences with those that other executions of the same launch found."""
        self._overlaps, self._dependences = {}, {}
        for recheck in rechecks:
            for conflicts, rechecked in zip(self.conflicts, recheck.conflicts, strict=True):
                for key, cells in rechecked.items():
                    conflicts.setdefault(key, _Cells()).join(cells)

    def narrow_atomic(self, place: Place, elements: Array, programs: Array, partners: Array) -> None:
        """Record elements that two programs update, at least one by an atomic that holds within a program only."""
        self._narrow.setdefault(place, _Cells()).add(elements, programs, partners)

    def uninitialised(self, place: Place, elements: Array, programs: Array) -> None:
        """Record elements read before anything wrote them."""
        self._uninitialised.setdefault(place, _Cells()).add(elements, programs, programs)

    def stray(self, key: StrayKey, elements: Array, programs: Array, lanes_each: int) -> None:
        """Record lanes outside their argument, each of which stands for `lanes_each`; keep the lowest program."""
        first = int(programs.argmin())
        at = int(elements[first])
        known = self._strays.setdefault(key, _StrayLanes(0, int(programs[first]), at, at, at))
        known.lanes += len(elements) * lanes_each
        known.lowest = min(known.lowest, int(elements.min()))
        known.highest = max(known.highest, int(elements.max()))
        if programs[first] < known.program:
            known.program, known.element = int(programs[first]), int(elements[first])

    def drop_strays(self, locations: frozenset[str] | None) -> None:
        """Drop the stray accesses of these operations; None means all."""
        self._strays = {
            key: stray for key, stray in self._strays.items() if locations is not None and key[0] not in locations
        }

    def undefined(self, place: Place, lanes: int) -> None:
        """Record lanes that a masked load without `other` left undefined."""
        self._undefined[place] = self._undefined.get(place, 0) + lanes

    def assertion(self, location: str, message: str, programs: Array, lanes: int) -> None:
        """Record an assertion that failed in these programs."""
        _fail(self._failed, (location, message), programs, lanes)

    def assumption(self, location: str, programs: Array) -> None:
        """Record an assumption that is false in these programs."""
        _fail(self._false, location, programs, len(programs))

    def false_hint(
        self, place: Place, hint: PlacedHint, breach: HintBreach, width: int, broken: "BrokenGroups"
    ) -> None:
        """Record groups of lanes that an access cannot join, although a hint says so."""
        first = int(broken.programs.argmin())
        program, lanes = int(broken.programs[first]), len(broken.programs) * width * broken.lanes_each
        seen = tuple(int(fact[first]) for fact in broken.seen)
        known = self._hints.setdefault((place, hint, breach, width), _Broken(0, program, seen))
        known.lanes += lanes
        if program < known.program:
            known.program, known.seen = program, seen

    def misaligned(self, place: Place, what: Unaligned, programs: Array, off_by: Array) -> None:
        """Record a part of a tensor descriptor that is `off_by` bytes from a multiple of 16 in these programs."""
        first = int(programs.argmin())
        misaligned = int(programs[first]), int(off_by[first])
        self._misaligned[place, what] = min(self._misaligned.get((place, what), misaligned), misaligned)

    def finish(
        self, kernel: str, launch: int, arguments: list[Argument], sources: Callable[[str], Source | None]
    ) -> Iterator[MemoryEvent]:
        """Return the events as values, in a stable order."""
        launched = _Launch(kernel, launch, arguments, sources)
        yield from self._cell_events(launched)
        for (location, argument, access, region), stray in self._strays.items():
            yield Stray(
                site=launched.site((location, argument)),
                access=access,
                region=region,
                lanes=stray.lanes,
                program=stray.program,
                element=stray.element,
                wrapped=_is_wrapped(arguments[argument], stray),
                elements=_span(arguments[argument], stray),
            )
        # Native code meets places in another order than the machine: sort the kinds that it reports.
        for place, lanes in sorted(self._undefined.items(), key=_by_place):
            site = launched.site(place)
            block_pointer = site.source is not None and is_unpadded_block_load(site.source)
            yield UndefinedLanes(site=site, lanes=lanes, block_pointer=block_pointer)
        for (place, what), (program, off_by) in self._misaligned.items():
            yield Misaligned(site=launched.site(place), what=what, off_by=off_by, program=program)
        for (location, message), failed in self._failed.items():
            site = AccessSite(kernel=kernel, launch=launch, argument="", source=sources(location))
            yield AssertFailed(site=site, message=message, lanes=failed.lanes, program=failed.program)
        for location, failed in self._false.items():
            site = AccessSite(kernel=kernel, launch=launch, argument="", source=sources(location))
            yield FalseAssumption(site=site, programs=failed.lanes, program=failed.program)
        for ((location, argument), hint, breach, width), broken in self._hints.items():
            source = sources(hint.location)
            yield FalseHint(
                site=AccessSite(
                    kernel=kernel,
                    launch=launch,
                    argument=arguments[argument].name,
                    source=source and line_of_hint(source, hint.hint),
                ),
                hint=hint.hint,
                values=hint.values,
                breach=breach,
                access=sources(location),
                width=width,
                lanes=broken.lanes,
                program=broken.program,
                seen=broken.seen,
            )

    def _cell_events(
        self, launched: "_Launch"
    ) -> Iterator[Overlap | OrderDependence | NarrowAtomic | UninitialisedRead]:
        for (place, atomic), cells in self._overlaps.items():
            distinct, ours, partners = cells.unique()
            yield Overlap(
                site=launched.site(place),
                same_bytes=cells.same_bytes,
                cells=len(distinct),
                first_cells=launched.first_cells(place, distinct),
                programs=(ours, partners) if atomic else (min(ours, partners), max(ours, partners)),
                atomic=atomic,
                is_whole=len(distinct) >= launched.stored_elements(place),
                cell_map=launched.spread(place, distinct),
            )
        for (place, atomic), cells in self._dependences.items():
            distinct, reader, writer = cells.unique()
            yield OrderDependence(
                site=launched.site(place),
                cells=len(distinct),
                first_cells=launched.first_cells(place, distinct),
                programs=(reader, writer),
                atomic=atomic,
                cell_map=launched.spread(place, distinct),
            )
        for place, cells in self._narrow.items():
            distinct, ours, partners = cells.unique()
            yield NarrowAtomic(
                site=launched.site(place),
                cells=len(distinct),
                first_cells=launched.first_cells(place, distinct),
                programs=(min(ours, partners), max(ours, partners)),
            )
        for place, cells in sorted(self._uninitialised.items(), key=_by_place):
            distinct, program, _ = cells.unique()
            yield UninitialisedRead(
                site=launched.site(place),
                cells=len(distinct),
                first_cells=launched.first_cells(place, distinct),
                program=program,
                is_integer=launched.is_of_integers(place),
                cell_map=launched.spread(place, distinct),
            )


@dataclass(frozen=True, slots=True)
class _Launch:
    """The launch of the events, which turns places and elements into reported values."""

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

    def stored_elements(self, place: Place) -> int:
        """Return how many elements of the argument the launch has stored."""
        argument = self.arguments[place[1]]
        if argument.buffer is None:
            return 0
        shadow = argument.buffer.shadow
        elements = (shadow.stored_cells() * shadow.cell_bytes - argument.first_byte) // argument.element_bytes
        return len(np.unique(elements[(elements >= 0) & (elements < argument.extent)]))

    def is_of_integers(self, place: Place) -> bool:
        """Return True if the argument's storage was allocated for integers, and is fresh."""
        buffer = self.arguments[place[1]].buffer
        return buffer is not None and buffer.poison is not None and buffer.poison.pattern in INTEGER_PATTERNS

    def spread(self, place: Place, elements: Array) -> Spread | None:
        argument = self.arguments[place[1]]
        cells = argument.cells_of(elements)
        return share(argument.shape, cells) if len(cells) else None


def _span(argument: Argument, stray: _StrayLanes) -> ElementSpan | None:
    if argument.buffer is None:
        return None
    before = argument.first_byte // argument.element_bytes
    return ElementSpan(
        shape=argument.shape,
        extent=argument.extent,
        storage=(-before, argument.buffer.size_bytes // argument.element_bytes - before),
        touched=(stray.lowest, stray.highest),
    )


def _is_wrapped(argument: Argument, stray: _StrayLanes) -> bool:
    """Return True if one of the known elements is a multiple of 2^32 away from an element of the tensor.

    Elements near the tensor do not count: in a tensor of 2^32 elements, all others are such a multiple away.  Nor do
    those farther away than the sum of two offsets of 32 bits.
    """
    if argument.buffer is None:
        return False
    return any(
        element % WRAP < argument.extent
        and not -NEAR <= element < argument.extent + NEAR
        and -WRAP <= element < argument.extent + WRAP
        for element in (stray.element, stray.lowest, stray.highest)
    )


def _fail(kept: dict[_Key, _StrayLanes], key: _Key, programs: Array, lanes: int) -> None:
    known = kept.setdefault(key, _StrayLanes(0, int(programs.min()), 0, 0, 0))
    known.lanes += lanes
    known.program = min(known.program, int(programs.min()))


def _by_place(item: tuple[Place, object]) -> Place:
    return item[0]
