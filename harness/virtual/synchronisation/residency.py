"""Launches whose programs may wait for each other: how many the GPU holds, and what follows where that is too few.

A launch that got stuck is run again, from its buffers as they were, with other numbers of resident programs, until it
is known from which on it ends.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.errors import CannotExecute, LaunchStuck
from harness.model.device import DeviceProfile
from harness.model.run import Deadlocked, Residency, Source, Wait
from harness.virtual.binding import Binding
from harness.virtual.machine import Machine
from harness.virtual.memory.arguments import Argument
from harness.virtual.memory.events import EventCollector
from harness.virtual.numbers.elements import Array
from harness.virtual.synchronisation.occupancy import Occupancy
from harness.virtual.synchronisation.scheduler import ProgramWait, Scheduler, Stuck

MOST_BEGUN = 20_000
"""Programs begun in all further attempts at one launch; past this the threshold stays unknown."""
FIRST = 4
TOO_LARGE = "Triton Error [CUDA]: too many blocks in cooperative launch"
"""What Triton's launcher raises for CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentLaunch:
    """One launch, ready to be tried more than once."""

    kernel: str
    machine: Machine
    """Set up for the launch; each program runs in a machine like it."""
    bind: Callable[[], Binding]
    """The launch's arguments, with nothing seen of them yet."""
    ids: Array
    """Of its programs, in the order in which they begin."""
    device: DeviceProfile
    occupancy: Callable[[], Occupancy]
    """Asked where it matters: it takes the whole compiler."""

    @property
    def capacity(self) -> int:
        """How many of the programs the GPU holds at a time."""
        programs = len(self.ids)
        if programs <= self.device.sm_count:
            return programs
        return min(programs, self.device.sm_count * self.occupancy().programs)

    def check_cooperative(self) -> None:
        """Refuse what a GPU refuses of a cooperative launch: more programs than it holds.

        Raises:
            RuntimeError: as Triton's launcher raises it.
        """
        if self.capacity < len(self.ids):
            raise RuntimeError(
                f"{TOO_LARGE}: {len(self.ids)} programs, where {self.device.sm_count} SMs hold "
                f"{self.occupancy().programs} each"
            )

    def run(
        self, binding: Binding, events: EventCollector, source: Callable[[str], Source | None]
    ) -> Deadlocked | None:
        """Execute all programs; tells how they got stuck."""
        before = {buffer.address: buffer.bytes.copy() for buffer in binding.buffers}
        stuck = self._attempt(binding, events, self.capacity)
        if stuck is None:
            return None
        ends_with, limit = _Search(self, before).threshold(self.capacity)
        held = self.occupancy()
        return Deadlocked(
            kernel=self.kernel,
            waits=_waits(stuck, binding.arguments, source),
            programs=len(self.ids),
            resident=len(stuck.waiting),
            not_started=stuck.not_started,
            sm_count=self.device.sm_count,
            programs_per_sm=held.programs,
            limited_by=held.limited_by,
            ends_with=ends_with,
            limit=limit,
        )

    def ends(self, resident: int, before: Mapping[int, Array]) -> bool:
        """Whether the launch comes to its end with so many programs resident, from buffers as they were."""
        binding = self.bind()
        for buffer in binding.buffers:
            buffer.bytes[:] = before[buffer.address]
        return self._attempt(binding, EventCollector(), resident) is None

    def _attempt(self, binding: Binding, events: EventCollector, resident: int) -> Stuck | None:
        return Scheduler(self.machine, binding.arguments, events, resident).run(binding.values, self.ids)


class _Search:
    """For the numbers of resident programs with which a launch ends that got stuck."""

    def __init__(self, launch: ResidentLaunch, before: Mapping[int, Array]) -> None:
        self._launch = launch
        self._before = before
        self._left = MOST_BEGUN

    def threshold(self, stuck: int) -> tuple[Residency, int]:
        """From `stuck` upwards to all, then downwards to one; between, the least and the most are taken for a bound."""
        programs = len(self._launch.ids)
        try:
            if programs > stuck and self._ends(programs):
                return Residency.AT_LEAST, self._between(programs, stuck)
            if stuck > 1 and self._ends(1):
                return Residency.AT_MOST, self._between(1, stuck)
        except (_TooManyError, CannotExecute):
            return Residency.UNKNOWN, 0
        return Residency.NONE, 0

    def _between(self, good: int, bad: int) -> int:
        """The last number from `good` to `bad` with which the launch ends; often it is `good`: barriers need all."""
        beside = good + (1 if bad > good else -1)
        if beside != bad and not self._ends(beside):
            bad = beside
        while abs(good - bad) > 1:
            middle = (good + bad) // 2
            if self._ends(middle):
                good = middle
            else:
                bad = middle
        return good

    def _ends(self, resident: int) -> bool:
        self._left -= len(self._launch.ids)
        if self._left < 0:
            raise _TooManyError
        return self._launch.ends(resident, self._before)


class _TooManyError(Exception):
    """The attempts took too much."""


def stuck_error(deadlocked: Deadlocked) -> LaunchStuck:
    """What unwinds the library that launched."""
    return LaunchStuck(f"{deadlocked.kernel}: {deadlocked.resident} resident programs wait forever")


def _waits(stuck: Stuck, arguments: list[Argument], source: Callable[[str], Source | None]) -> tuple[Wait, ...]:
    """What the programs wait for, the cells that most of them wait for first."""
    groups: dict[tuple[tuple[str, int, int], ...], list[int]] = {}
    for waiting in stuck.waiting:
        groups.setdefault(_polled(waiting), []).append(waiting.program)
    ordered = sorted((polled for polled in groups if polled), key=lambda polled: -len(groups[polled]))
    return tuple(
        Wait(
            argument=arguments[argument].name,
            index=arguments[argument].index_of(element),
            cells=len(polled),
            source=source(location),
            programs=len(groups[polled]),
            first_programs=tuple(groups[polled][:FIRST]),
        )
        for polled in ordered[:FIRST]
        for location, argument, element in polled[:1]
    )


def _polled(waiting: ProgramWait) -> tuple[tuple[str, int, int], ...]:
    """The cells that a program reads over and over, as (location, argument, element), each once."""
    found = {(*read.place, element): None for read in waiting.reads for element in read.elements.tolist()}
    return tuple(found)
