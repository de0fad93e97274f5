"""Runs launches whose programs may wait for each other, with as many resident programs as the GPU holds.

A deadlocked launch runs again from its original buffers with other numbers of resident programs.  A search finds the
number from which on it completes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.engines.virtual.binding import Binding
from harness.engines.virtual.memory.arguments import Argument
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.numbers.elements import Array
from harness.engines.virtual.prepared_launch import PreparedLaunch
from harness.engines.virtual.synchronisation.occupancy import Occupancy
from harness.engines.virtual.synchronisation.scheduler import ProgramWait, Scheduler, Stuck
from harness.errors import CannotExecute, LaunchStuck
from harness.model.run import Deadlocked, Residency, Source, Wait

MOST_PROGRAMS_BEGUN = 20_000
"""Programs started by one search; past this, the threshold stays unknown."""
MOST_SHOWN = 4
"""The waits of a deadlock, and the programs at each, that are shown."""
TOO_LARGE = "Triton Error [CUDA]: too many blocks in cooperative launch"
"""What Triton's launcher raises for CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentLaunch:
    """One launch that can run more than once, with different numbers of resident programs."""

    launch: PreparedLaunch
    occupancy: Callable[[], Occupancy]
    """Computes the occupancy; expensive, since it runs the whole compiler."""

    @property
    def capacity(self) -> int:
        """The number of programs that the GPU holds at a time."""
        programs = len(self.launch.ids)
        if programs <= self.launch.device.sm_count:
            return programs
        return min(programs, self.launch.device.sm_count * self.occupancy().programs)

    def check_cooperative(self) -> None:
        """Refuse a cooperative launch of more programs than the GPU holds, as a GPU does.

        Raises:
            RuntimeError: the error of Triton's launcher.
        """
        if self.capacity < len(self.launch.ids):
            raise RuntimeError(
                f"{TOO_LARGE}: {len(self.launch.ids)} programs, where {self.launch.device.sm_count} SMs hold "
                f"{self.occupancy().programs} each"
            )

    def run(self, events: EventCollector) -> Deadlocked | None:
        """Execute all programs; returns a description of the deadlock, if there was one."""
        binding = self.launch.binding
        before = {buffer.address: buffer.bytes.copy() for buffer in binding.buffers}
        stuck = self._execute(binding, events, self.capacity)
        if stuck is None:
            return None
        search = ThresholdSearch(len(self.launch.ids), lambda resident: self.completes(resident, before))
        ends_with, limit = search.threshold(self.capacity)
        occupancy = self.occupancy()
        return Deadlocked(
            kernel=self.launch.kernel,
            waits=_waits(stuck, binding.arguments, self.launch.module.source),
            programs=len(self.launch.ids),
            resident=len(stuck.waiting),
            not_started=stuck.not_started,
            sm_count=self.launch.device.sm_count,
            programs_per_sm=occupancy.programs,
            limited_by=occupancy.limited_by,
            ends_with=ends_with,
            limit=limit,
        )

    def completes(self, resident: int, before: Mapping[int, Array]) -> bool:
        """Return True if the launch completes with `resident` programs, starting from the contents `before`."""
        binding = self.launch.bind()
        for buffer in binding.buffers:
            buffer.bytes[:] = before[buffer.address]
        return self._execute(binding, EventCollector(), resident) is None

    def _execute(self, binding: Binding, events: EventCollector, resident: int) -> Stuck | None:
        return Scheduler(self.launch.context, binding.arguments, events, resident).run(binding.values, self.launch.ids)


class ThresholdSearch:
    """A search for the numbers of resident programs with which a deadlocked launch completes."""

    def __init__(self, programs: int, completes: Callable[[int], bool]) -> None:
        """`completes` runs the launch, from the memory that it began with, with a number of resident programs."""
        self._programs = programs
        self._completes_with = completes
        self._left = MOST_PROGRAMS_BEGUN

    def threshold(self, stuck: int) -> tuple[Residency, int]:
        """Search above `stuck` up to all programs, then below it down to one; assumes one threshold on each side."""
        programs = self._programs
        try:
            if programs > stuck and self._completes(programs):
                return Residency.AT_LEAST, self._between(programs, stuck)
            if stuck > 1 and self._completes(1):
                return Residency.AT_MOST, self._between(1, stuck)
        except (_TooManyError, CannotExecute):
            return Residency.UNKNOWN, 0
        return Residency.NONE, 0

    def _between(self, completing: int, stuck: int) -> int:
        """The last number on the way from `completing` to `stuck` with which the launch completes, by bisection."""
        # Often it is `completing` itself, since barriers need all programs: check its neighbour first.
        neighbour = completing + (1 if stuck > completing else -1)
        if neighbour != stuck and not self._completes(neighbour):
            stuck = neighbour
        while abs(completing - stuck) > 1:
            middle = (completing + stuck) // 2
            if self._completes(middle):
                completing = middle
            else:
                stuck = middle
        return completing

    def _completes(self, resident: int) -> bool:
        self._left -= self._programs
        if self._left < 0:
            raise _TooManyError
        return self._completes_with(resident)


class _TooManyError(Exception):
    """The search started too many programs."""


def stuck_error(deadlocked: Deadlocked) -> LaunchStuck:
    """The exception that ends the library call which launched the kernel."""
    return LaunchStuck(f"{deadlocked.kernel}: {deadlocked.resident} resident programs wait forever")


def _waits(stuck: Stuck, arguments: list[Argument], source: Callable[[str], Source | None]) -> tuple[Wait, ...]:
    """The waits of a deadlock, those of most programs first."""
    groups: dict[tuple[tuple[str, int, int], ...], list[int]] = {}
    for wait in stuck.waiting:
        groups.setdefault(_polled_cells(wait), []).append(wait.program)
    ordered = sorted((cells for cells in groups if cells), key=lambda cells: -len(groups[cells]))
    return tuple(
        Wait(
            argument=arguments[argument].name,
            index=arguments[argument].index_of(element),
            cells=len(cells),
            source=source(location),
            programs=len(groups[cells]),
            first_programs=tuple(groups[cells][:MOST_SHOWN]),
        )
        for cells in ordered[:MOST_SHOWN]
        for location, argument, element in cells[:1]
    )


def _polled_cells(wait: ProgramWait) -> tuple[tuple[str, int, int], ...]:
    """The distinct cells that a program polls, as (location, argument, element)."""
    elements = {(*read.place, element): None for read in wait.reads for element in read.elements.tolist()}
    return tuple(elements)
