"""The machine: executes control flow over all programs of a launch at once.

Every value has a leading axis of programs, of length 1 if it is the same for all.  If programs diverge, both branches
run under a mask of programs, and the results are selected.  TTIR is SSA, so no more is needed.  The tables in
`operations` define single operations.  An operation in no table ends the case as unsupported, by name.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.engines.ttir.ir import Block, Function, Module, Operation, TtirRegion, Type
from harness.engines.ttir.wide_accesses import wide_accesses
from harness.engines.virtual.grid import LaunchGrid
from harness.engines.virtual.memory.accesses import Memory
from harness.engines.virtual.memory.addresses import Addresses, PoisonOf
from harness.engines.virtual.memory.pointers import Descriptor, MixedPointers, Pointers, choices_of
from harness.engines.virtual.memory.shared_blocks import SharedBlock
from harness.engines.virtual.memory.vectors import VectorChecks
from harness.engines.virtual.numbers.elements import Array, carrier
from harness.engines.virtual.numbers.exact_pairs import ExactPair
from harness.errors import CannotExecute
from harness.model.case import LaneFill
from harness.model.device import Arch

Value = Array | Pointers | MixedPointers | Descriptor | ExactPair | SharedBlock
Values = tuple[Value, ...]
LoopState = object
"""The state of a loop at the beginning of its last trip, None before the first.  Its type is the machine's choice."""
Handler = Callable[["Machine", Operation, list[Value]], "Value | Values | None"]

CHUNK_ELEMENTS = 1 << 19
"""The most elements of the largest block, counted over all programs that run side by side: a few megabytes."""
MOST_TRIPS = 1 << 24
"""The most trips of a loop with a bound.  More would take hours here, but only seconds on a GPU."""
STEP_LIMIT = 50_000
"""The most trips of a loop without a bound."""


class CannotExecuteAt(CannotExecute):
    """An operation cannot be executed; with the operation's location."""

    def __init__(self, what: str, location: str) -> None:
        super().__init__(what)
        self.location = location


class TooManyTrips(CannotExecute):
    """A loop exceeds its limit of trips, and waits for no other program."""


class TooManyTripsAt(CannotExecuteAt):
    """A loop exceeds its limit of trips; with the loop's location."""


class RunawayKernel(RuntimeError):
    """Unwinds the library that launched a kernel with too many trips."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchContext:
    """The part of a launch that all its machines share; a launch may be executed more than once."""

    module: Module
    grid: LaunchGrid
    lane_fill: LaneFill
    handlers: Mapping[str, Handler]
    """The effect of each operation, by name."""
    arch: Arch
    """Some number conversions depend on it."""
    poison_of: PoisonOf
    """Returns the poison of the storage at an address, if the storage is fresh."""
    step_limit: int = STEP_LIMIT
    """The most trips of a loop without a bound, unless it waits for another program."""
    most_trips: int = MOST_TRIPS
    """The most trips of a loop with a bound."""
    begins_at_ends: bool = False
    """A loop that carries nothing from trip to trip begins with its first trips, its last ones and some between."""
    entered: bytearray
    """A byte for each of `Module.blocks`, 1 once a program has entered the block."""


class Machine:
    """Executes the programs of one launch, side by side, on one memory."""

    def __init__(self, context: LaunchContext, memory: Memory) -> None:
        self.memory = memory
        self.module = context.module
        self.vectors = VectorChecks(wide_accesses(context.module.kernel))
        """The checks of accesses that compiler hints make wider."""
        self.grid = context.grid
        self.lane_fill = context.lane_fill
        self.arch = context.arch
        self.step_limit = context.step_limit
        self.most_trips = context.most_trips
        self.begins_at_ends = context.begins_at_ends
        self.active: Array | None = None
        """A mask of the programs that execute the current part; None for all of them."""
        self.printed_lines = 0
        """Lines that programs of the launch have printed."""
        self._entered = context.entered
        self._poison_of = context.poison_of
        self._handlers = context.handlers
        self._ids: Array = np.zeros(0, np.int64)

    def run(self, arguments: Sequence[Value], ids: Array) -> None:
        """Execute the programs with these linear ids, as many side by side as memory allows.

        If programs meet in memory, each operation takes effect in the order of the ids.

        Raises:
            CannotExecuteAt: an operation is unknown, or cannot be executed with these arguments.
        """
        kernel = self.module.kernel
        chunk = max(1, CHUNK_ELEMENTS // max(1, largest_block(kernel.body)))
        with np.errstate(all="ignore"):
            for first in range(0, len(ids), chunk):
                self.run_in_lock_step(ids[first : first + chunk], kernel, arguments)

    def run_in_lock_step(self, ids: Array, kernel: Function, arguments: Sequence[Value]) -> None:
        self._ids = ids
        self.__dict__.pop("numbers", None)
        self.active = None
        self.call(kernel, arguments)

    def back_edge(self, before: LoopState, carried: Values) -> LoopState:
        """Return the new state of a loop without a bound that begins another trip.

        `before` is the state that the last call for this loop returned, None at first.  Programs in lock-step cannot
        wait for each other, so the state is a count of trips.

        Raises:
            TooManyTrips: the loop has made more than `step_limit` trips.
        """
        del carried
        trips = before + 1 if isinstance(before, int) else 1
        if trips > self.step_limit:
            # Known issues and stored findings refer to this text by their signature: keep it.
            raise TooManyTrips(f"a loop made {self.step_limit:,} trips and waits for nobody")
        return trips

    def leave_loop(self) -> None:
        """Called when a loop without a bound ends."""

    # --- programs ---

    @cached_property
    def numbers(self) -> Array:
        """The numbers (linear id + 1) of the programs that run side by side."""
        return (self._ids + 1).astype(np.int32)

    @property
    def width(self) -> int:
        """The number of programs that run side by side."""
        return len(self._ids)

    def program_id(self, axis: str) -> Array:
        """Return each program's coordinate on an axis of the grid."""
        x, y = self.grid.x, self.grid.y
        match axis:
            case "x":
                ids = self._ids % x
            case "y":
                ids = self._ids // x % y
            case _:
                ids = self._ids // (x * y)
        return ids.astype(np.int32)

    def with_active(self, mask: Array | None, rank: int) -> Array | None:
        """Return a block's mask with inactive programs masked off; `rank` counts the program axis."""
        if self.active is None:
            return mask
        active = self.active.reshape(-1, *(1,) * (rank - 1))
        return active if mask is None else mask & active

    @contextmanager
    def masked(self, programs: Array | None) -> Generator[None]:
        """Execute a part under a mask of programs; None means all of them."""
        outer = self.active
        self.active = programs
        try:
            yield
        finally:
            self.active = outer

    @contextmanager
    def lanes_as_programs(self, each: int) -> Generator[None]:
        """Execute a part on `each` lanes of every program as if they were programs themselves."""
        outer, active = self._ids, self.active
        self._ids = np.repeat(outer, each)
        self.active = None if active is None else np.repeat(active, each)
        self.__dict__.pop("numbers", None)
        try:
            yield
        finally:
            self._ids, self.active = outer, active
            self.__dict__.pop("numbers", None)

    def votes(self, condition: Array) -> tuple[Array, bool, bool]:
        """Return a scalar condition as one vote per program, and whether any active program votes yes or no."""
        votes = (
            np.broadcast_to(condition, (self.width,)) if self.active is not None or len(condition) > 1 else condition
        )
        if self.active is None:
            return votes, bool(votes.any()), not votes.all()
        return votes & self.active, bool((votes & self.active).any()), bool((~votes & self.active).any())

    def pointers_at(self, addresses: Array, element_bytes: int) -> Pointers | MixedPointers:
        """Return integer addresses as pointers to elements of that size."""
        if self.active is not None and len(addresses) == self.width:
            addresses = addresses.copy()
            # Inactive programs hold arbitrary integers, which must not be looked up.
            addresses[~self.active] = addresses[self.active][:1]
        return Addresses(self.memory.arguments, self._poison_of).pointers(addresses, element_bytes)

    # --- functions, regions, blocks ---

    @contextmanager
    def handled_by(self, handlers: Mapping[str, Handler]) -> Generator[None]:
        """Execute a part with other effects of operations."""
        outer, self._handlers = self._handlers, handlers
        try:
            yield
        finally:
            self._handlers = outer

    def call(self, function: Function, arguments: Sequence[Value]) -> Values:
        """Execute a function and return the operands of its `tt.return`."""
        frame: list[Value] = [_EMPTY] * function.slots
        for parameter, argument in zip(function.parameters, arguments, strict=True):
            frame[parameter.slot] = argument
        return self.run_region(function.body, frame)

    def run_region(self, region: TtirRegion, frame: list[Value], arguments: Sequence[Value] = ()) -> Values:
        """Execute a region and return the operands of its terminator."""
        if len(region.blocks) > 1:
            return self._run_blocks(region, frame, arguments)
        return self._run_block(region.entry, frame, arguments)

    def _run_block(self, block: Block, frame: list[Value], arguments: Sequence[Value]) -> Values:
        self._entered[block.number] = 1
        for slot, argument in zip(block.arguments, arguments, strict=True):
            frame[slot] = argument
        for operation in block.operations:
            handler = self._handlers.get(operation.name)
            if handler is None:
                if operation.name in TERMINATORS:
                    return tuple(frame[slot] for slot in operation.operands)
                raise CannotExecuteAt(operation.name, operation.location)
            try:
                returned = handler(self, operation, frame)
            except CannotExecuteAt:
                raise
            except CannotExecute as error:
                raise _located(error, operation) from error
            if operation.results:
                assert returned is not None
                values = returned if isinstance(returned, tuple) else (returned,)
                for slot, value in zip(operation.results, values, strict=True):
                    frame[slot] = value
            for slot in operation.frees:  # blocks are large: release each after its last use
                frame[slot] = _EMPTY
        return ()

    def _run_blocks(self, region: TtirRegion, frame: list[Value], arguments: Sequence[Value]) -> Values:
        """Execute unstructured control flow: a region of blocks that branch to each other.

        Programs wait at the block that they branch to.  The first of these blocks in topological order runs next, so
        that diverged programs meet again before they go on together.
        """
        order = {block.label: at for at, block in enumerate(_reverse_postorder(region))}
        blocks = {block.label: block for block in region.blocks}
        all_active = np.ones(self.width, np.bool_) if self.active is None else self.active
        waiting: dict[str, tuple[Array, Values]] = {region.entry.label: (all_active, tuple(arguments))}
        returned: tuple[Array, Values] | None = None
        loops: dict[str, LoopState] = {}
        while waiting:
            label = min(waiting, key=lambda name: order[name])
            programs, values = waiting.pop(label)
            block = blocks[label]
            last = block.operations[-1]
            with self.masked(None if programs.all() else programs):
                results = self._run_block(block, frame, values)
            if last.name not in {"cf.br", "cf.cond_br"}:
                returned = (programs, results if returned is None else self.merge(programs, results, returned[1]))
                continue
            for successor, going in self._targets(last, frame, programs):
                if not going.any():
                    continue
                passed = tuple(frame[slot] for slot in successor.arguments)
                is_back_edge = order[successor.block] <= order[label]
                state = loops.get(successor.block)
                loops[successor.block] = self.back_edge(state, passed) if is_back_edge else None
                if successor.block in waiting:
                    arriving, held = waiting[successor.block]
                    waiting[successor.block] = (arriving | going, self.merge(going, passed, held))
                else:
                    waiting[successor.block] = (going, passed)
        if any(loops.values()):
            self.leave_loop()
        return returned[1] if returned else ()

    def _targets(self, branch: Operation, frame: list[Value], programs: Array):  # noqa: ANN202 - private pairs
        if branch.name == "cf.br":
            return ((branch.successors[0], programs),)
        condition = frame[branch.operands[0]]
        assert isinstance(condition, np.ndarray)
        taken = np.broadcast_to(condition, (self.width,))
        return ((branch.successors[0], programs & taken), (branch.successors[1], programs & ~taken))

    # --- merging the values of diverged programs ---

    def merge(self, programs: Array, new: Values, old: Values) -> Values:
        """Return the new values for `programs`, and the old ones for the others."""
        return tuple(self.select(programs, left, right) for left, right in zip(new, old, strict=True))

    def select(self, chosen: Array, left: Value, right: Value) -> Value:
        """Return `left` where `chosen` is set, else `right`; it has one vote per program, or is a block's mask."""
        if left is right:
            return left
        if isinstance(left, Descriptor) or isinstance(right, Descriptor):
            return self._select_descriptor(chosen, left, right)
        if isinstance(left, Pointers | MixedPointers) or isinstance(right, Pointers | MixedPointers):
            if not (isinstance(left, Pointers | MixedPointers) and isinstance(right, Pointers | MixedPointers)):
                raise CannotExecute("a choice between a pointer and a number")
            return self._select_pointers(chosen, left, right)
        if isinstance(left, SharedBlock) or isinstance(right, SharedBlock):
            raise CannotExecute("a choice between buffers of shared memory")
        if isinstance(left, ExactPair) or isinstance(right, ExactPair):
            first, second = _as_pair(left), _as_pair(right)
            return ExactPair(
                _select_lanes(chosen, first.real, second.real), _select_lanes(chosen, first.exact, second.exact)
            )
        return _select_lanes(chosen, left, right)

    @staticmethod
    def _select_pointers(
        chosen: Array, left: Pointers | MixedPointers, right: Pointers | MixedPointers
    ) -> Pointers | MixedPointers:
        """Select per lane.  If all lanes agree, the pointers keep their un-broadcast parts."""
        if chosen.all():
            return left
        if not chosen.any():
            return right
        rank = choices_of(left)[0][0].ndim
        chosen = chosen.reshape(*chosen.shape, *(1,) * (rank - chosen.ndim))
        return MixedPointers.of(
            [
                *((chosen & mask, pointers) for mask, pointers in choices_of(left)),
                *((~chosen & mask, pointers) for mask, pointers in choices_of(right)),
            ]
        )

    def _select_descriptor(self, chosen: Array, left: Value, right: Value) -> Descriptor:
        if not (isinstance(left, Descriptor) and isinstance(right, Descriptor)):
            raise CannotExecute("a choice between a tensor descriptor and something else")

        def pairs(firsts: tuple[Array, ...], seconds: tuple[Array, ...]) -> tuple[Array, ...]:
            return tuple(_select_lanes(chosen, first, second) for first, second in zip(firsts, seconds, strict=True))

        return Descriptor(
            self._select_pointers(chosen, left.base, right.base),
            pairs(left.extents, right.extents),
            pairs(left.strides, right.strides),
            *pairs((left.pads_with_nan, left.rounds_to_tf32), (right.pads_with_nan, right.rounds_to_tf32)),
        )


def _located(error: CannotExecute, operation: Operation) -> CannotExecuteAt:
    if isinstance(error, TooManyTrips):
        return TooManyTripsAt(error.what, operation.location)
    return CannotExecuteAt(f"{operation.name}: {error.what}", operation.location)


_EMPTY: Array = np.zeros(0, np.int8)
TERMINATORS = frozenset(
    {
        "scf.yield",
        "scf.condition",
        "tt.return",
        "tt.reduce.return",
        "tt.scan.return",
        "tt.map_elementwise.return",
        "cf.br",
        "cf.cond_br",
    }
)


def _select_lanes(chosen: Array, left: Array, right: Array) -> Array:
    if chosen.ndim < left.ndim:
        chosen = chosen.reshape(-1, *(1,) * (left.ndim - 1))
    return np.where(chosen, left, right)


def _as_pair(value: Array | ExactPair) -> ExactPair:
    return value if isinstance(value, ExactPair) else ExactPair(value, value.astype(np.float64))


def _reverse_postorder(region: TtirRegion) -> list[Block]:
    blocks = {block.label: block for block in region.blocks}
    seen: set[str] = set()
    order: list[Block] = []

    def visit(label: str) -> None:
        seen.add(label)
        for operation in blocks[label].operations[-1:]:
            for successor in operation.successors:
                if successor.block not in seen:
                    visit(successor.block)
        order.append(blocks[label])

    visit(region.entry.label)
    return order[::-1]


def largest_block(region: TtirRegion) -> int:
    """Return the number of elements of the largest block that one program holds."""
    largest = 1
    for block in region.blocks:
        for operation in block.operations:
            for kind in operation.result_types:
                largest = max(largest, _elements(kind))
            for inner in operation.regions:
                largest = max(largest, largest_block(inner))
    return largest


def _elements(kind: Type) -> int:
    count = 1
    for extent in kind.shape:
        count *= extent
    return count


def zeros(kind: Type) -> Array:
    """Return a zero of a type, un-broadcast."""
    return np.zeros((1,) * (1 + len(kind.shape)), carrier(kind.element))
