"""Traces one program after another, to find cells that two of its accesses touch without a barrier between them.

TTIR knows no threads: a tile is stored as a whole and then loaded as a whole.  On a GPU each thread does its own part
of every access, and threads meet at barriers only.  So the accesses between two barriers form an epoch.  If one of them
stores a cell, and another touches it for another element of its tile, the two may belong to different threads.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from harness.engines.ttir.address_slice import TOUCHED_BY_LOAD, TOUCHED_BY_STORE
from harness.engines.ttir.ir import Module, Operation
from harness.engines.ttir.reach import BARRIERS
from harness.engines.virtual.binding import Binding
from harness.engines.virtual.machine import Handler, LaunchContext, Machine, Value, Values
from harness.engines.virtual.memory.accesses import BlockAccess, Memory
from harness.engines.virtual.memory.arguments import Argument, Buffer
from harness.engines.virtual.memory.events import EventCollector
from harness.engines.virtual.memory.pointers import MixedPointers, Pointers, split_by_argument
from harness.engines.virtual.numbers.elements import Array
from harness.engines.virtual.synchronisation.barrier_points import BarrierPoints, line_of

MOST_LANES = 1 << 22
"""The lanes of one program's accesses after which its trace ends."""


@dataclass(frozen=True, slots=True)
class TracedAccess:
    """One load or store of one program."""

    line: int
    """The line of its operation in the numbered TTIR."""
    argument: Argument
    shape: tuple[int, ...]
    is_store: bool
    active: Array = field(compare=False, repr=False)
    """The row-major indices of the elements that are not masked off."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Cells that two accesses of one epoch touch, the second after the first.  At least one of the two stores.

    The arrays are of equal length: the number of a byte of the buffer, and the row-major index in each of the tiles.
    """

    first: TracedAccess
    second: TracedAccess
    bytes: Array
    first_at: Array
    second_at: Array

    @property
    def moves(self) -> bool:
        """True if the accesses touch a cell for different elements, or the first stores it."""
        return (
            self.first.is_store
            or self.first.shape != self.second.shape
            or bool((self.first_at != self.second_at).any())
        )

    def subset(self, keep: Array) -> "Meeting":
        return Meeting(self.first, self.second, self.bytes[keep], self.first_at[keep], self.second_at[keep])


@dataclass(slots=True)
class Epoch:
    """The accesses of one program since a barrier."""

    accesses: list[TracedAccess] = field(default_factory=list[TracedAccess])
    cells: list[Array] = field(default_factory=list[Array])
    """For each access, a number for every cell that it touches, which no other buffer has."""
    at: list[Array] = field(default_factory=list[Array])
    """For each of these cells, the row-major index in the tile."""

    def meetings(self) -> Iterator[Meeting]:
        """Yield what each access has in common with the store before it, and each load with the store after it."""
        meeting = self._of_shared_buffers()
        if not meeting:
            return
        cells = np.concatenate([self.cells[number] for number in meeting])
        which = np.repeat(meeting, [len(self.cells[number]) for number in meeting])
        order = np.lexsort((which, cells))
        cells, which, at = cells[order], which[order], np.concatenate([self.at[number] for number in meeting])[order]
        stores = np.array([access.is_store for access in self.accesses])[which]
        pairs = _pairs(cells, which, stores)
        numbers = which[pairs[:, 0]] * len(self.accesses) + which[pairs[:, 1]]
        by_accesses = np.argsort(numbers, kind="stable")
        for same in np.split(by_accesses, np.flatnonzero(np.diff(numbers[by_accesses])) + 1) if len(pairs) else ():
            first, second = pairs[same].T
            earlier, later = which[first[0]], which[second[0]]
            bytes_ = cells[first] & (1 << _BYTE_BITS) - 1
            yield Meeting(self.accesses[earlier], self.accesses[later], bytes_, at[first], at[second])

    def _of_shared_buffers(self) -> list[int]:
        """Return the numbers of the accesses to buffers that several accesses touch, one of them a store."""
        touched = Counter(access.argument.buffer for access in self.accesses)
        stored = {access.argument.buffer for access in self.accesses if access.is_store}
        shared = {buffer for buffer in stored if touched[buffer] > 1}
        return [number for number, access in enumerate(self.accesses) if access.argument.buffer in shared]


def _pairs(cells: Array, which: Array, stores: Array) -> Array:
    """Return pairs of entries with the same cell, the earlier access first; entries are sorted by cell and access."""
    here = np.arange(len(cells))
    is_first = np.r_[True, cells[1:] != cells[:-1]]
    is_first_of_access = is_first | np.r_[True, which[1:] != which[:-1]]
    group = np.maximum.accumulate(np.where(is_first, here, 0))
    access = np.maximum.accumulate(np.where(is_first_of_access, here, 0))
    last_store = np.maximum.accumulate(np.where(stores, here, -1))
    before = last_store[access - 1]
    has_before = (access > group) & (before >= group)
    # The same from the other end: for each load the next store.
    next_store = np.minimum.accumulate(np.where(stores, here, len(cells))[::-1])[::-1]
    ends = np.r_[is_first_of_access[1:], True]
    end_of_access = np.minimum.accumulate(np.where(ends, here, len(cells))[::-1])[::-1]
    group_ends = np.minimum.accumulate(np.where(np.r_[is_first[1:], True], here, len(cells))[::-1])[::-1]
    after = next_store[np.minimum(end_of_access + 1, len(cells) - 1)]
    has_after = ~stores & (end_of_access < group_ends) & (after <= group_ends)
    return np.concatenate(
        [
            np.stack((before[has_before], here[has_before]), 1),
            np.stack((here[has_after], after[has_after]), 1),
        ]
    )


_BYTE_BITS = 44
"""Bits for the number of a byte in a buffer; those above number the buffer."""


class TraceIsFull(Exception):
    """A program has made so many accesses that the rest is not traced."""


class EpochMemory(Memory):
    """Memory that also keeps the accesses of the current epoch."""

    def __init__(
        self, arguments: list[Argument], events: EventCollector, on_meeting: Callable[[int, Meeting], None]
    ) -> None:
        super().__init__(arguments, events)
        self._on_meeting = on_meeting
        self._program = 0
        self._epoch = Epoch()
        self._lanes = 0
        self._numbers: dict[int, int] = {}
        """By its address, the number of a buffer."""

    def load(self, access: BlockAccess, other: Array) -> Array:
        self.touch(access, is_store=False)
        return super().load(access, other)

    def store(self, access: BlockAccess, values: Array) -> None:
        self.touch(access, is_store=True)
        super().store(access, values)

    def barrier(self) -> None:
        """End the epoch."""
        epoch, self._epoch = self._epoch, Epoch()
        for meeting in epoch.meetings():
            self._on_meeting(self._program, meeting)

    def begin(self, program: int) -> None:
        """Begin the trace of a program."""
        self._program, self._lanes, self._epoch = program, 0, Epoch()

    def touch(self, access: BlockAccess, *, is_store: bool) -> None:
        """Keep an access, without making it."""
        argument = self.arguments[access.pointers.argument]
        buffer, line = argument.buffer, line_of(access.location)
        if buffer is None or not buffer.track_readers or not line or len(access.numbers) > 1:
            return
        shape = (1, *access.kind.shape)
        index = np.broadcast_to(access.pointers.index(), shape).reshape(-1)
        at = np.arange(len(index))
        if access.mask is not None:
            active = np.broadcast_to(access.mask, shape).reshape(-1)
            index, at = index[active], at[active]
        if not len(index):
            return
        self._lanes += len(index)
        if self._lanes > MOST_LANES:
            raise TraceIsFull
        size, step = access.pointers.element_bytes, buffer.cell_bytes
        first = index.astype(np.int64) * size + argument.first_byte
        is_inside = (first >= 0) & (first + size <= buffer.size_bytes)
        self._epoch.accesses.append(TracedAccess(line, argument, access.kind.shape, is_store, at))
        cells, at = _cells(first[is_inside], at[is_inside], size, step)
        self._epoch.cells.append(cells + (self._number(buffer) << _BYTE_BITS))
        self._epoch.at.append(at)

    def _number(self, buffer: Buffer) -> int:
        return self._numbers.setdefault(buffer.address, len(self._numbers))


def _cells(first: Array, at: Array, size: int, step: int) -> tuple[Array, Array]:
    """Return the first bytes of all cells of elements of `size` bytes, in cells of `step` bytes."""
    cells = first // step * step
    if size <= step:
        return cells, at
    count = size // step
    return (cells[:, None] + np.arange(count) * step).reshape(-1), np.repeat(at, count)


def trace(
    context: LaunchContext,
    binding: Binding,
    programs: Array,
    points: BarrierPoints,
    on_meeting: Callable[[int, Meeting], None],
) -> None:
    """Execute programs, each alone, and report what their accesses have in common between barriers.

    The programs change memory, unless the kernel is an address slice.

    Args:
        context: has the kernel with numbered lines, or its address slice.
        binding: the arguments, bound for this execution alone.
        programs: the linear ids of the programs.
        points: the barriers that the compiler added; those in the kernel's text always count.
        on_meeting: takes the program's id and the meeting.

    Raises:
        CannotExecute: an operation is unknown, or cannot be executed with these arguments.
    """
    memory = EpochMemory(binding.arguments, EventCollector(), on_meeting)
    handlers = _Barriers.of(context.module, points, memory.barrier).around(context.handlers)
    handlers |= {"tt.print": _say_nothing, **_TOUCHING}
    machine = Machine(replace(context, handlers=handlers), memory)
    for at, program in enumerate(programs.tolist()):
        memory.begin(program)
        with suppress(TraceIsFull):
            machine.run(binding.values, programs[at : at + 1])
        memory.barrier()


def _say_nothing(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """Print nothing: the launch itself prints."""
    del machine, operation, frame


def _touch(machine: Machine, operation: Operation, frame: list[Value]) -> None:
    """An access of an address slice."""
    memory, kind = machine.memory, operation.operand_types[0]
    pointers, *masks = (frame[slot] for slot in operation.operands)
    mask = masks[0] if masks else None
    assert isinstance(memory, EpochMemory)
    assert isinstance(pointers, Pointers | MixedPointers)
    assert isinstance(mask, np.ndarray | None)
    for target, lanes in split_by_argument(pointers, mask):
        active = machine.with_active(lanes, 1 + len(kind.shape))
        access = BlockAccess(operation.location, target, kind, active, machine.numbers)
        memory.touch(access, is_store=operation.name == TOUCHED_BY_STORE)


_TOUCHING: Mapping[str, Handler] = {TOUCHED_BY_LOAD: _touch, TOUCHED_BY_STORE: _touch}


@dataclass(frozen=True, slots=True)
class _Barriers:
    """The barriers of one kernel, which end epochs while it runs."""

    before: frozenset[int]
    after: frozenset[int]
    names: frozenset[str]
    """The names of the operations that have barriers."""
    meet: Callable[[], None]

    @classmethod
    def of(cls, module: Module, points: BarrierPoints, meet: Callable[[], None]) -> "_Barriers":
        operations = tuple(module.kernel.body.all_operations())
        before, after = set(points.before), set(points.after)
        for operation in operations:
            line = line_of(operation.location)
            if operation.name in BARRIERS:
                before.add(line)
            if operation.regions and operation.name.startswith("scf.") and line in before | after:
                # A barrier of a loop may be in each of its trips.
                after.add(line)
                before |= _first_lines(operation)
        names = frozenset(candidate.name for candidate in operations if line_of(candidate.location) in before | after)
        return cls(frozenset(before), frozenset(after), names, meet)

    def around(self, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
        """Return the handlers, with barriers around those of operations that have some."""
        return {name: self._around(handler) if name in self.names else handler for name, handler in handlers.items()}

    def _around(self, handler: Handler) -> Handler:
        def handle(machine: Machine, operation: Operation, frame: list[Value]) -> Value | Values | None:
            line = line_of(operation.location)
            if line in self.before:
                self.meet()
            result = handler(machine, operation, frame)
            if line in self.after:
                self.meet()
            return result

        return handle


def _first_lines(operation: Operation) -> set[int]:
    """Return the lines of the operations with which the blocks of an operation's regions begin."""
    blocks = (block for region in operation.regions for block in region.blocks if block.operations)
    return {line_of(block.operations[0].location) for block in blocks}
