"""Runs programs that may wait for each other, as coroutines; as many are resident as the GPU holds.

Programs start in the order of the launch, the next one when a resident one ends.  A program yields to the other ready
programs before each atomic and each volatile load.  A program waits if a loop trip begins in the same state as the trip
before and changed no memory.  It would then repeat that trip until a cell that the trip reads changes.  So it gets no
turn until then.  If all resident programs wait, the launch is deadlocked.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from greenlet import GreenletExit, getcurrent, greenlet

from harness.engines.virtual.machine import LaunchContext, LoopState, Machine, Value, Values
from harness.engines.virtual.memory.arguments import Argument, Buffer
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.memory.pointers import Pointers
from harness.engines.virtual.numbers.elements import Array
from harness.engines.virtual.numbers.exact_pairs import ExactPair
from harness.engines.virtual.synchronisation.clocks import Clocks
from harness.engines.virtual.synchronisation.synchronised_memory import SynchronisedMemory
from harness.engines.virtual.synchronisation.wakeups import Read, Wakeups
from harness.errors import CannotExecute

MOST_READS = 4096
"""A loop trip with more reads than this is not treated as waiting."""
MOST_IDLE_TURNS = 1000
"""Turns of each resident program without a change of memory, after which the launch ends as unsupported."""


@dataclass(frozen=True, slots=True)
class ProgramWait:
    """One waiting program, and the reads of the loop trip that it would repeat."""

    program: int
    """The linear program id."""
    reads: Sequence[Read]


@dataclass(frozen=True, slots=True)
class Stuck:
    """All resident programs wait."""

    waiting: tuple[ProgramWait, ...]
    """The resident programs, in the order of their ids."""
    not_started: int


@dataclass(frozen=True, slots=True)
class _Trip:
    """A program's state at the beginning of a loop trip."""

    carried: Values
    changes: int
    time: int
    """`Scheduler.now` at the beginning of the trip."""
    reads: list[Read] | None
    """The trip's reads; None if they are not recorded."""
    number: LoopState
    """The state that the base class keeps, which counts trips."""


class ScheduledProgram(Machine):
    """One program of the launch, and the coroutine in which it runs."""

    def __init__(self, scheduler: "Scheduler", number: int, arguments: Sequence[Value]) -> None:
        super().__init__(scheduler.context, scheduler.memory)
        self.number = number
        self.waits_for: Sequence[Read] | None = None
        self.reads: list[Read] | None = None
        self.coroutine = greenlet(self._execute)
        self._scheduler = scheduler
        self._arguments = arguments
        self._changes = 0

    def _execute(self) -> None:
        with np.errstate(all="ignore"):
            self.run_in_lock_step(np.array([self.number - 1]), self.module.kernel, self._arguments)
        self._scheduler.memory.finish_atomic()

    def yield_turn(self) -> None:
        """Let the other ready programs run first."""
        self._scheduler.yield_turn(self)

    def memory_changed(self, buffer: Buffer, first_bytes: Array, width: int) -> None:
        """Called when this program changed the contents of rows of bytes."""
        self._changes += 1
        self._scheduler.memory_changed(buffer, first_bytes, width)

    def back_edge(self, before: LoopState, carried: Values) -> LoopState:
        """Compare the state with that at the beginning of the last trip.

        The first repetition of a state turns on the recording of reads.  After a second repetition, the reads of one
        whole trip are known, and the program waits for them to change.
        """
        self._scheduler.memory.finish_atomic()
        number = super().back_edge(before.number if isinstance(before, _Trip) else None, carried)
        if not (isinstance(before, _Trip) and before.changes == self._changes and are_equal(before.carried, carried)):
            self.reads = None
        else:
            was_recorded = before.reads is not None and before.reads is self.reads
            if was_recorded and before.reads is not None and self._scheduler.is_unchanged(before.reads, before.time):
                self._scheduler.wait(self, before.reads)
            self.reads = [] if not self.reads or len(self.reads) < MOST_READS else None
        return _Trip(carried, self._changes, self._scheduler.now, self.reads, number)

    def leave_loop(self) -> None:
        """Stop recording reads."""
        self.reads = None


class Scheduler:
    """One execution of a launch, with at most `resident` programs at a time."""

    def __init__(
        self, context: LaunchContext, arguments: list[Argument], events: EventCollector, resident: int
    ) -> None:
        self.context = context
        self._clocks = Clocks(context.grid.programs)
        self.memory = SynchronisedMemory(arguments, events, self._clocks, lambda: self._running)
        self._resident = resident
        self._wakeups: Wakeups[ScheduledProgram] = Wakeups()
        self._ready: deque[ScheduledProgram] = deque()
        self._alive: dict[ScheduledProgram, None] = {}
        self._idle_turns = 0
        """Turns since memory changed or a program started."""
        self._main_coroutine = getcurrent()
        self._running: ScheduledProgram

    def run(self, values: Sequence[Value], ids: Array) -> Stuck | None:
        """Execute the programs with these linear ids; returns the waits if the launch deadlocked.

        Raises:
            CannotExecute: an operation is unknown or cannot be executed, or programs poll without any effect.
        """
        self._main_coroutine = getcurrent()
        not_yet_started = iter(ids.tolist())
        alive = self._alive
        not_started = len(ids)
        try:
            while True:
                for number in islice(not_yet_started, self._resident - len(alive)):
                    program = ScheduledProgram(self, number + 1, values)
                    alive[program] = None
                    self._ready.append(program)
                    not_started -= 1
                    self._idle_turns = 0
                if not self._ready:
                    return self._stuck(alive, not_started) if alive else None
                self._running = self._ready.popleft()
                self._running.coroutine.switch()
                if self._running.coroutine.dead:
                    self._clocks.end_program(self._running.number)
                    del alive[self._running]
        finally:
            # Unwind the coroutines of programs that did not end.
            for program in alive:
                program.coroutine.throw(GreenletExit)

    # --- called by the running program ---

    @property
    def now(self) -> int:
        """The time, counted in changes of memory."""
        return self._wakeups.now

    def yield_turn(self, program: ScheduledProgram) -> None:
        """Let the other ready programs run before this one."""
        self._idle_turns += 1
        if self._idle_turns > MOST_IDLE_TURNS * len(self._alive):
            count = len(self._alive)
            raise CannotExecute(
                f"a loop that polls: {count} programs took {MOST_IDLE_TURNS} turns each and nothing changed"
            )
        if self._ready:
            self._ready.append(program)
            self._main_coroutine.switch()

    def wait(self, program: ScheduledProgram, reads: Sequence[Read]) -> None:
        """Suspend the program until one of the cells that it read changes."""
        program.waits_for = reads
        self._wakeups.add(program, reads)
        self._main_coroutine.switch()

    def is_unchanged(self, reads: Sequence[Read], since: int) -> bool:
        """Return True if nothing that was read has changed since then."""
        return self._wakeups.is_unchanged(reads, since)

    def memory_changed(self, buffer: Buffer, first_bytes: Array, width: int) -> None:
        """Make the programs ready that waited for these bytes to change."""
        self._idle_turns = 0
        for program in self._wakeups.record_change(buffer, first_bytes, width):
            assert program.waits_for is not None
            self._wakeups.remove(program, program.waits_for)
            program.waits_for = None
            self._ready.append(program)

    # --- the end ---

    def _stuck(self, alive: Mapping[ScheduledProgram, None], not_started: int) -> Stuck:
        waiting = (ProgramWait(program.number - 1, program.waits_for or ()) for program in alive)
        return Stuck(tuple(sorted(waiting, key=lambda entry: entry.program)), not_started)


def are_equal(first: Values, second: Values) -> bool:
    """Return True if two tuples of values are equal bit for bit."""
    return all(_is_equal(left, right) for left, right in zip(first, second, strict=True))


def _is_equal(left: Value, right: Value) -> bool:
    if left is right:
        return True
    if isinstance(left, Pointers) and isinstance(right, Pointers):
        same_unit = (left.argument, left.element_bytes) == (right.argument, right.element_bytes)
        return same_unit and bool(np.array_equal(left.index(), right.index()))
    if isinstance(left, ExactPair) and isinstance(right, ExactPair):
        return _is_equal(left.real, right.real)
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    return False  # other kinds count as different: such a loop is never treated as waiting
