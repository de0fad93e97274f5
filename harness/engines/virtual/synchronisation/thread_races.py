"""Races between the threads of one program in global memory: the last step, which knows the compiled code.

1. `may_race` reads TTIR.  Only a kernel that accesses one buffer twice in a program, and stores to it, can race.
2. A few programs of the launch run once more, under `thread_trace`.  Only explicit barriers order accesses in this
   trace.  It executes what decides addresses alone, if that does not depend on what the kernel stores.  Nearly all
   kernels have no meeting, and are done.
3. The others are compiled to TTGIR, which shows which warp owns which element of each tile.  A meeting is a race if no
   warp takes part in both accesses, unless the compiler added a barrier.
4. If there are such meetings, the kernel is compiled to PTX, which shows these barriers, and a last trace counts them.

Lanes of one warp are left out.  CUDA's memory model orders them no more than warps, but Triton's own code relies on
the order in which a warp issues its accesses.  A scalar and a tile smaller than the program are loaded by several
warps.  If the warp that stores is among them, it sees its own store in order: then it is a race only if `value_uses`
shows that another of these warps stores something that depends on the load.  Elements that are masked off are not
stored.  Descriptors and atomics are left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np

from harness.engines.ttir.address_slice import AddressSlice, address_slice
from harness.engines.ttir.ir import Module, Operation, TtirRegion, module_fact
from harness.engines.ttir.parser import parse
from harness.engines.ttir.reach import STORES, UNKNOWN_ORIGIN, PointerReach, Slots, reach_of
from harness.engines.virtual.memory.arguments import Buffer
from harness.engines.virtual.memory.events import FIRST_CELLS
from harness.engines.virtual.numbers.elements import Array
from harness.engines.virtual.prepared_launch import PreparedLaunch
from harness.engines.virtual.synchronisation.barrier_points import (
    BarrierPoints,
    barrier_points,
    line_of,
    numbered_lines,
)
from harness.engines.virtual.synchronisation.thread_trace import Meeting, TracedAccess, trace
from harness.engines.virtual.synchronisation.tile_layouts import TileOwners, owners_of
from harness.engines.virtual.synchronisation.value_uses import ValueUses
from harness.errors import CannotExecute
from harness.model.run import Access, AccessSite, Source, ThreadRace

MOST_TRACED_LAUNCHES = 2
"""Launches of one build in a case that are traced; others mostly differ in numbers only."""
_NO_BARRIERS = BarrierPoints(frozenset(), frozenset())
_PLAIN = frozenset({"tt.load", "tt.store"})
StageCompiler = Callable[[str, str], str]
"""Takes a stage, `ttgir` or that of the assembly, and a TTIR text, and returns the text of the stage.

A kernel that does not compile raises RuntimeError.
"""


class _Undecided(Exception):
    """The first trace has a meeting that only the compiled code can decide."""


@dataclass(frozen=True, slots=True)
class _Warps:
    """Which warps make the accesses of a kernel with numbered lines."""

    owners: Mapping[int, TileOwners]
    """By line, the warps of each access.  An access that the compiler removed has none."""
    uses: ValueUses
    repeated: frozenset[int]
    """The lines of accesses in loops."""

    def racing(self, meeting: Meeting) -> tuple[Array, Array] | None:
        """Return masks of the warps that race for each cell of a meeting, by the first and by the second access.

        No warp is in both masks of a cell.  Both are empty if nothing races for it.  The result is None if the compiled
        code lacks one of the accesses.
        """
        first = self._warps(meeting.first, meeting.first_at)
        second = self._warps(meeting.second, meeting.second_at)
        if first is None or second is None:
            return None
        # A warp that makes both accesses makes them in order.  So where the masks share warps, only those race that
        # make one of the accesses alone, and whose access counts.
        only_second = second & ~first & self._users(meeting.second)
        only_first = first & ~second & self._users(meeting.first) & self._storing(meeting)
        rules = [(first & second) == 0, only_second != 0, only_first != 0]  # the first that holds decides
        nothing = np.uint64(0)
        return (
            np.select(rules, [first, first, only_first], nothing),
            np.select(rules, [second, only_second, second], nothing),
        )

    def _warps(self, access: TracedAccess, at: Array) -> Array | None:
        owners = self.owners.get(access.line)
        return None if owners is None or owners.shape != access.shape else owners.warps[at]

    def _users(self, access: TracedAccess) -> np.uint64:
        """The warps that store something that depends on a load; none for a store."""
        return np.uint64(0 if access.is_store else self.uses.warps(access.line))

    def _storing(self, meeting: Meeting) -> np.uint64:
        """The warps whose elements are stored later, if nothing else depends on a load; else all.

        Inductor updates a number by a tile of which all elements but one are masked off.
        """
        load, store = meeting.first, meeting.second
        is_alone = not load.is_store and self.uses.only_store(load.line) == store.line
        if not is_alone or store.line in self.repeated:
            return ~np.uint64(0)
        return np.bitwise_or.reduce(self.owners[store.line].warps[store.active])


@dataclass(slots=True)
class _Race:
    """All races of one pair of operations."""

    first: Meeting
    """The first one, in the lowest program."""
    at: int
    """The index of its lowest cell."""
    warps: tuple[int, int]
    """The warps that race for it."""
    program: int
    cells: list[Array] = field(default_factory=list[Array])


@dataclass(slots=True)
class _Races:
    """The races of one launch."""

    warps: _Warps
    by_place: dict[tuple[int, int, str], _Race] = field(default_factory=dict[tuple[int, int, str], _Race])
    """By the lines of the earlier and the later access, and the argument."""

    def judge(self, program: int, meeting: Meeting) -> None:
        """Keep the cells of a meeting for which warps race."""
        racing = self.warps.racing(meeting)
        if racing is None:
            return
        here = racing[0] != 0
        if here.any():
            race = meeting.subset(here)
            key = race.first.line, race.second.line, race.second.argument.name
            if key not in self.by_place:
                at = int(race.bytes.argmin())
                warps = (_first_warp(racing[0][here][at]), _first_warp(racing[1][here][at]))
                self.by_place[key] = _Race(race, at, warps, program)
            self.by_place[key].cells.append(race.bytes)

    def in_order(self) -> Iterator[_Race]:
        """Yield the races in the order of the kernel's text."""
        for key in sorted(self.by_place):
            yield self.by_place[key]


@dataclass
class ThreadRaceCheck:
    """Finds races between threads in the launches of one build."""

    module: Module
    ttir: str
    num_warps: int
    lanes: int
    """Threads of a warp."""
    assembly: str
    """The stage with the assembly: `ptx`, `amdgcn`."""
    compile_to: StageCompiler

    def may_race(self, launch: PreparedLaunch) -> bool:
        """Return True if a program of several warps may touch a cell twice by plain accesses, one of them a store."""
        if self.num_warps == 1:
            return False
        seen, stored = dict[Buffer, int](), set[Buffer]()
        for access in plain_accesses(self.module):
            for buffer in launch.binding.buffers_of(access.slots):
                seen[buffer] = seen.get(buffer, 0) + 1 + (access.is_repeated and access.is_store)
                if access.is_store:
                    stored.add(buffer)
        return any(seen[buffer] > 1 for buffer in stored)

    def check(self, launch: PreparedLaunch, launch_number: int) -> Iterator[ThreadRace]:
        """Yield the races of a launch.  Memory afterwards holds what it held before.

        Raises:
            CannotExecute: the launch cannot be traced, or what decides is unknown, such as a layout.
        """
        if launch.may_wait:
            raise CannotExecute("programs that may wait for others")
        if launch.is_long:
            raise CannotExecute("a launch that is too long to be traced")
        if not self._needs_code(launch):
            return
        if len(self.module.functions) > 1:
            raise CannotExecute("a kernel that calls functions")
        if self._races(launch, _NO_BARRIERS).by_place:
            yield from self._events(self._races(launch, self._points), launch, launch_number)

    # --- which kernels ---

    @cached_property
    def _has_tables(self) -> bool:
        """True if pointers come from memory: what they point to has no copy from before a trace."""
        return any(
            operation.name == "tt.int_to_ptr" or (operation.name == "tt.load" and operation.result_types[0].is_pointer)
            for operation in self.module.kernel.body.all_operations()
        )

    def _needs_code(self, launch: PreparedLaunch) -> bool:
        def decide(program: int, meeting: Meeting) -> None:
            del program
            has_copies = prod(meeting.first.shape) < self.num_warps * self.lanes
            if meeting.moves or has_copies:
                raise _Undecided

        if self._has_tables:
            raise CannotExecute("a kernel that loads pointers")
        try:
            self._trace(launch, _NO_BARRIERS, decide, self._addresses_of(launch) or self._numbered)
        except _Undecided:
            return True
        return False

    # --- tracing ---

    @cached_property
    def _numbered(self) -> Module:
        return parse(numbered_lines(self.ttir))

    @cached_property
    def _operations(self) -> dict[int, Operation]:
        """The operations of the kernel itself, by their line in the numbered text."""
        pairs = zip(self._numbered.kernel.body.all_operations(), self.module.kernel.body.all_operations(), strict=True)
        return {line_of(numbered.location): operation for numbered, operation in pairs}

    @cached_property
    def _warps(self) -> _Warps:
        owners = {line_of(location): owners for location, owners in owners_of(self._compiled("ttgir")).items()}
        operations = _with_loops(self._numbered.kernel.body, in_loop=False)
        repeated = frozenset(line_of(operation.location) for operation, is_in_loop in operations if is_in_loop)
        return _Warps(owners, ValueUses(self._numbered.kernel, owners), repeated)

    @cached_property
    def _points(self) -> BarrierPoints:
        return barrier_points(self._compiled(self.assembly))

    def _compiled(self, stage: str) -> str:
        try:
            return self.compile_to(stage, numbered_lines(self.ttir))
        except RuntimeError as error:  # from MLIR's passes
            raise CannotExecute(
                f"a kernel that does not compile: {str(error).strip().partition(chr(10))[0]}"
            ) from error

    @cached_property
    def _slice(self) -> AddressSlice | None:
        return address_slice(self.module)

    def _addresses_of(self, launch: PreparedLaunch) -> Module | None:
        """Return what decides addresses; None if that cannot be executed without the kernel's stores."""
        if self._slice is None:
            return None
        loaded = self._buffers(launch, self._slice.loads)
        stores = (access.slots for access in plain_accesses(self.module) if access.is_store)
        return None if loaded & frozenset().union(*map(launch.binding.buffers_of, stores)) else self._slice.module

    def _buffers(self, launch: PreparedLaunch, accesses: Iterable[Operation]) -> frozenset[Buffer]:
        reach = reach_of(self.module.kernel)
        return frozenset().union(*(launch.binding.buffers_of(_slots_of(reach, access)) for access in accesses))

    def _races(self, launch: PreparedLaunch, points: BarrierPoints) -> _Races:
        races = _Races(self._warps)
        self._trace(launch, points, races.judge, self._numbered)
        return races

    def _trace(
        self,
        launch: PreparedLaunch,
        points: BarrierPoints,
        on_meeting: Callable[[int, Meeting], None],
        module: Module,
    ) -> None:
        """Trace the first, the middle and the last program.  Memory afterwards holds what it held before."""
        count = launch.context.grid.programs
        programs = np.unique([0, count // 2, count - 1])
        binding = launch.bind()
        is_slice = self._slice is not None and module is self._slice.module  # which stores nothing
        stored = () if is_slice else (buffer for buffer in binding.buffers if buffer.track_readers)
        before = [(buffer, buffer.bytes.copy()) for buffer in stored]
        try:
            context = replace(launch.context, module=module, entered=bytearray(module.block_count))
            trace(context, binding, programs, points, on_meeting)
        finally:
            for buffer, content in before:
                buffer.bytes[:] = content

    # --- reporting ---

    def _events(self, races: _Races, launch: PreparedLaunch, number: int) -> Iterator[ThreadRace]:
        for race in races.in_order():
            meeting, at, argument = race.first, race.at, race.first.second.argument
            sides = ((meeting.first, int(meeting.first_at[at])), (meeting.second, int(meeting.second_at[at])))
            cells = np.unique((np.concatenate(race.cells) - argument.first_byte) // argument.element_bytes)
            lowest = (int(meeting.bytes[at]) - argument.first_byte) // argument.element_bytes
            shown = sorted(cells.tolist(), key=lambda cell: cell != lowest)
            yield ThreadRace(
                site=AccessSite(
                    kernel=launch.kernel,
                    launch=number,
                    argument=argument.name,
                    source=self._source(meeting.second.line),
                ),
                earlier=self._source(meeting.first.line),
                accesses=(_direction(meeting.first), _direction(meeting.second)),
                cells=len(cells),
                first_cells=tuple(map(argument.index_of, shown[:FIRST_CELLS])),
                program=race.program,
                positions=tuple(_index(where, access.shape) for access, where in sides),
                warps=race.warps,
            )

    def _source(self, line: int) -> Source | None:
        return self.module.source(self._operations[line].location)


@dataclass(frozen=True, slots=True)
class PlainAccess:
    """A load or store of a kernel."""

    slots: Slots | None
    """The parameters that it may go through; None means any."""
    is_store: bool
    is_repeated: bool
    """It is in a loop."""


@module_fact
def plain_accesses(module: Module) -> tuple[PlainAccess, ...]:
    """Return the plain loads and stores of a kernel."""
    reach = reach_of(module.kernel)
    return tuple(
        PlainAccess(_slots_of(reach, operation), operation.name in STORES, is_repeated)
        for operation, is_repeated in _with_loops(module.kernel.body, in_loop=False)
        if operation.name in _PLAIN
    )


def _slots_of(reach: PointerReach, access: Operation) -> Slots | None:
    slots = reach.origins_of(access)
    return None if slots >= UNKNOWN_ORIGIN else slots


def _with_loops(region: TtirRegion, *, in_loop: bool) -> Iterator[tuple[Operation, bool]]:
    """Yield all operations, each with True if it may run more than once."""
    for block in region.blocks:
        for operation in block.operations:
            yield operation, in_loop or len(region.blocks) > 1
            for inner in operation.regions:
                yield from _with_loops(inner, in_loop=in_loop or operation.name in {"scf.for", "scf.while"})


def _direction(access: TracedAccess) -> Access:
    return Access.STORE if access.is_store else Access.LOAD


def _first_warp(mask: np.uint64) -> int:
    return (int(mask) & -int(mask)).bit_length() - 1


def _index(at: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(part) for part in np.unravel_index(at, shape)) if shape else ()
