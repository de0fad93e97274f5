"""Runs programs that may wait for each other: each a coroutine, so many of them resident as the GPU can hold.

Programs begin in the order of the launch, the next when one ends.  The one whose turn it is gives way before each
atomic and each volatile load, to those that are ready, in turn.  One that begins a trip of a loop just as it began the
trip before, having changed no memory in between, waits: it makes the same trip again until a cell changes that it reads
there, and gets no turn before that.  Where all resident programs wait, none will ever go on.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from greenlet import GreenletExit, getcurrent, greenlet

from harness.errors import CannotExecute
from harness.virtual.machine import Lap, Machine, Value, Values
from harness.virtual.memory.arguments import Argument, Buffer
from harness.virtual.memory.events import EventCollector
from harness.virtual.memory.pointers import Pointers
from harness.virtual.numbers.elements import Array
from harness.virtual.synchronisation.clocks import Clocks
from harness.virtual.synchronisation.synchronised_memory import SynchronisedMemory
from harness.virtual.synchronisation.wakeups import Read, Wakeups

MOST_READS = 4096
"""A trip that reads more often than this is not taken for one of a loop that waits."""
PATIENCE = 1000
"""Turns of each resident program without any change of memory, after which the launch counts as running away."""


@dataclass(frozen=True, slots=True)
class ProgramWait:
    """One program at the beginning of a trip that will be like the last one."""

    program: int
    """Its linear id."""
    reads: Sequence[Read]


@dataclass(frozen=True, slots=True)
class Stuck:
    """No resident program can go on."""

    waiting: tuple[ProgramWait, ...]
    """The resident ones, by id."""
    not_started: int


@dataclass(frozen=True, slots=True)
class _Trip:
    """How a program stood at the beginning of a trip of a loop."""

    carried: Values
    changes: int
    began: int
    """By the watch."""
    reads: list[Read] | None
    """What the trip reads; None where that is not noted."""
    number: Lap
    """How many trips the loop made, as a machine in lock-step counts them."""


class ScheduledProgram(Machine):
    """One program of the launch, and the coroutine in which it runs."""

    def __init__(self, scheduler: "Scheduler", number: int, arguments: Sequence[Value]) -> None:
        vars(self).update(vars(scheduler.machine))  # whatever the launch's machine was set up with
        self.memory = scheduler.memory
        self.number = number
        self.waits_for: Sequence[Read] | None = None
        self.reads: list[Read] | None = None
        self.coroutine = greenlet(self._live)
        self._scheduler = scheduler
        self._arguments = arguments
        self._changes = 0

    def _live(self) -> None:
        with np.errstate(all="ignore"):
            self.side_by_side(np.array([self.number - 1]), self.module.kernel, self._arguments)
        self._scheduler.memory.settle()

    def give_way(self) -> None:
        """Let those that are ready go on first."""
        self._scheduler.give_way(self)

    def changed(self, buffer: Buffer, first_bytes: Array, width: int) -> None:
        """It changed what rows of bytes hold."""
        self._changes += 1
        self._scheduler.changed(buffer, first_bytes, width)

    def back_edge(self, before: Lap, carried: Values) -> Lap:
        """Compare with how the last trip began.  The first repetition is watched; after a second one it waits."""
        self._scheduler.memory.settle()
        number = super().back_edge(before.number if isinstance(before, _Trip) else None, carried)
        if not (isinstance(before, _Trip) and before.changes == self._changes and alike(before.carried, carried)):
            self.reads = None
        else:
            watched = before.reads is not None and before.reads is self.reads
            if watched and before.reads is not None and self._scheduler.is_quiet(before.reads, before.began):
                self._scheduler.wait(self, before.reads)
            self.reads = [] if not self.reads or len(self.reads) < MOST_READS else None
        return _Trip(carried, self._changes, self._scheduler.now, self.reads, number)

    def left_loop(self) -> None:
        """What is read from here on is of no interest."""
        self.reads = None


class Scheduler:
    """One attempt at a launch that `machine` is set up for, with `resident` programs at a time."""

    def __init__(self, machine: Machine, arguments: list[Argument], events: EventCollector, resident: int) -> None:
        self.machine = machine
        self._clocks = Clocks(machine.grid.programs)
        self.memory = SynchronisedMemory(arguments, events, self._clocks, lambda: self._turn)
        self._resident = resident
        self._watch: Wakeups[ScheduledProgram] = Wakeups()
        self._ready: deque[ScheduledProgram] = deque()
        self._living: dict[ScheduledProgram, None] = {}
        self._turns = 0
        """Since memory changed or a program began."""
        self._hub = getcurrent()
        self._turn: ScheduledProgram

    def run(self, values: Sequence[Value], ids: Array) -> Stuck | None:
        """Execute the programs with these linear ids; tells where no program could go on.

        Raises:
            CannotExecute: an operation is not known, cannot be executed as it stands, or the programs run away.
        """
        self._hub = getcurrent()
        coming = iter(ids.tolist())
        living = self._living
        not_started = len(ids)
        try:
            while True:
                for number in islice(coming, self._resident - len(living)):
                    program = ScheduledProgram(self, number + 1, values)
                    living[program] = None
                    self._ready.append(program)
                    not_started -= 1
                    self._turns = 0
                if not self._ready:
                    return self._stuck(living, not_started) if living else None
                self._turn = self._ready.popleft()
                self._turn.coroutine.switch()
                if self._turn.coroutine.dead:
                    self._clocks.ended(self._turn.number)
                    del living[self._turn]
        finally:
            for program in living:
                program.coroutine.throw(GreenletExit)

    # --- what the program does whose turn it is ---

    @property
    def now(self) -> int:
        """Time, counted in changes of memory."""
        return self._watch.now

    def give_way(self, program: ScheduledProgram) -> None:
        """Others that are ready go on before this one."""
        self._turns += 1
        if self._turns > PATIENCE * len(self._living):
            count = len(self._living)
            raise CannotExecute(f"a loop that polls: {count} programs took {PATIENCE} turns each and nothing changed")
        if self._ready:
            self._ready.append(program)
            self._hub.switch()

    def wait(self, program: ScheduledProgram, reads: Sequence[Read]) -> None:
        """The program goes on when one of the cells that it read changes."""
        program.waits_for = reads
        self._watch.wait(program, reads)
        self._hub.switch()

    def is_quiet(self, reads: Sequence[Read], since: int) -> bool:
        """Whether nothing that was read has changed since then."""
        return self._watch.is_quiet(reads, since)

    def changed(self, buffer: Buffer, first_bytes: Array, width: int) -> None:
        """Memory changed: who waited for it is ready."""
        self._turns = 0
        for program in self._watch.changed(buffer, first_bytes, width):
            assert program.waits_for is not None
            self._watch.go_on(program, program.waits_for)
            program.waits_for = None
            self._ready.append(program)

    # --- how it ends ---

    def _stuck(self, living: Mapping[ScheduledProgram, None], not_started: int) -> Stuck:
        waiting = (ProgramWait(program.number - 1, program.waits_for or ()) for program in living)
        return Stuck(tuple(sorted(waiting, key=lambda one: one.program)), not_started)


def alike(one: Values, other: Values) -> bool:
    """Whether two tuples of values are equal bit for bit."""
    return all(_same(left, right) for left, right in zip(one, other, strict=True))


def _same(left: Value, right: Value) -> bool:
    if left is right:
        return True
    if isinstance(left, Pointers) and isinstance(right, Pointers):
        same_unit = (left.argument, left.element_bytes) == (right.argument, right.element_bytes)
        return same_unit and bool(np.array_equal(left.index(), right.index()))
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    return False  # rarer kinds of value count as different: such a loop is never taken for one that waits
