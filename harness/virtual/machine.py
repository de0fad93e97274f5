"""Executes one launch: control flow over all programs of the grid at once.

Every value carries a leading axis of programs, of length 1 where it is the same for all.  Where programs part ways,
both ways run under a mask of programs and the results are selected: TTIR is SSA, so that is all it takes.  What a
single operation does is in the `operations_*` tables; an operation in none of them ends the case as unsupported, by
name.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from harness.errors import CannotExecute
from harness.model.case import LaneFill
from harness.virtual.grid import LaunchGrid
from harness.virtual.memory.accesses import Memory
from harness.virtual.memory.addresses import Addresses, PoisonOf
from harness.virtual.memory.pointers import Descriptor, Pointers, Several, ways_of
from harness.virtual.numbers.elements import Array, carrier
from harness.virtual.ttir.ir import Block, Function, Module, Operation, TtirRegion, Type

Value = Array | Pointers | Several | Descriptor
Values = tuple[Value, ...]
Lap = object
"""What a kind of machine remembers of a loop's last trip, None before the first."""
Handler = Callable[["Machine", Operation, list[Value]], "Value | Values | None"]

CHUNK_ELEMENTS = 1 << 19
"""Programs run side by side as long as their largest block stays below this many elements: a few megabytes."""


class Stopped(CannotExecute):
    """What could not be executed, with the operation's location."""

    def __init__(self, what: str, location: str) -> None:
        super().__init__(what)
        self.location = location


MOST_TRIPS = 1 << 24
"""What a loop with a bound may make; one that is to make more would take hours here, and seconds on any GPU."""
STEP_LIMIT = 50_000
STEP_LIMIT_VARIABLE = "HARNESS_STEP_LIMIT"
"""Names another limit."""


class RunsAway(CannotExecute):
    """A loop that waits for nobody made more trips than it may."""


class Runaway(Stopped):
    """The same, with the loop's location."""


class RunawayKernel(RuntimeError):
    """What unwinds the library that launched a kernel that runs away."""


class Machine:
    """One launch of one module."""

    def __init__(
        self, module: Module, memory: Memory, grid: LaunchGrid, lane_fill: LaneFill, handlers: Mapping[str, Handler]
    ) -> None:
        self.module = module
        self.memory = memory
        self.grid = grid
        self.lane_fill = lane_fill
        self.step_limit = STEP_LIMIT
        """How many trips a loop without a bound may make, unless it waits for another program."""
        self.most_trips = MOST_TRIPS
        """How many a loop with a bound may make."""
        self.arch = 90
        """The compute capability times ten: some conversions of numbers depend on it."""
        self.poison_of: PoisonOf = lambda _: None
        """Which storages are fresh, by their address."""
        self.active: Array | None = None
        """Programs that take part in what is being executed; None means all."""
        self._handlers = handlers
        self._ids: Array = np.zeros(0, np.int64)

    def run(self, arguments: Sequence[Value], ids: Array) -> None:
        """Execute the programs with these linear ids: as many side by side as memory allows, the next after them.

        Where programs meet in memory, the order of the ids is the order in which each step of theirs is done.

        Raises:
            Stopped: an operation is not known, or cannot be executed as it stands.
        """
        kernel = self.module.kernel
        chunk = max(1, CHUNK_ELEMENTS // max(1, largest_block(kernel.body)))
        with np.errstate(all="ignore"):
            for first in range(0, len(ids), chunk):
                self.side_by_side(ids[first : first + chunk], kernel, arguments)

    def side_by_side(self, ids: Array, kernel: Function, arguments: Sequence[Value]) -> None:
        """Execute these programs in lock-step."""
        self._ids = ids
        self.__dict__.pop("numbers", None)
        self.active = None
        self.call(kernel, arguments)

    def back_edge(self, before: Lap, carried: Values) -> Lap:
        """Called where a loop without a bound begins again; gets what it returned the last time, None at first.

        Programs in lock-step cannot wait for each other: here it counts trips.

        Raises:
            RunsAway: it has made more of them than `step_limit`.
        """
        del carried
        trips = before + 1 if isinstance(before, int) else 1
        if trips > self.step_limit:
            raise RunsAway(f"a loop made {self.step_limit:,} trips and waits for nobody")
        return trips

    def left_loop(self) -> None:
        """Called where a loop without a bound ends."""

    # --- programs ---

    @cached_property
    def numbers(self) -> Array:
        """Program numbers (linear id + 1) of the programs that run side by side."""
        return (self._ids + 1).astype(np.int32)

    @property
    def width(self) -> int:
        """How many programs run side by side."""
        return len(self._ids)

    def program_id(self, axis: str) -> Array:
        """Each program's coordinate on an axis of the grid."""
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
        """A block's mask with inactive programs masked off; `rank` counts the program axis."""
        if self.active is None:
            return mask
        active = self.active.reshape(-1, *(1,) * (rank - 1))
        return active if mask is None else mask & active

    @contextmanager
    def only(self, programs: Array | None) -> Generator[None]:
        """Run a part under a mask of programs; with all of them where it is None."""
        outer = self.active
        self.active = programs
        try:
            yield
        finally:
            self.active = outer

    @contextmanager
    def as_programs(self, each: int) -> Generator[None]:
        """Run a part on `each` lanes of every program as if they were programs themselves."""
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
        """A scalar condition as one vote a program, whether any active program says yes, and whether any says no."""
        votes = (
            np.broadcast_to(condition, (self.width,)) if self.active is not None or len(condition) > 1 else condition
        )
        if self.active is None:
            return votes, bool(votes.any()), not votes.all()
        return votes & self.active, bool((votes & self.active).any()), bool((~votes & self.active).any())

    def pointers_at(self, addresses: Array, element_bytes: int) -> Pointers | Several:
        """Integers as pointers to elements of that size."""
        if self.active is not None and len(addresses) == self.width:
            addresses = addresses.copy()
            addresses[~self.active] = addresses[self.active][:1]  # what the others hold may be anything
        return Addresses(self.memory.arguments, self.poison_of).pointers(addresses, element_bytes)

    # --- functions, regions, blocks ---

    def call(self, function: Function, arguments: Sequence[Value]) -> Values:
        """Run a function and return what its `tt.return` hands back."""
        frame: list[Value] = [_EMPTY] * function.slots
        for parameter, argument in zip(function.parameters, arguments, strict=True):
            frame[parameter.slot] = argument
        return self.region(function.body, frame)

    def region(self, region: TtirRegion, frame: list[Value], arguments: Sequence[Value] = ()) -> Values:
        """Run a region; returns the operands of its terminator."""
        if len(region.blocks) > 1:
            return self._blocks(region, frame, arguments)
        return self._straight(region.entry, frame, arguments)

    def _straight(self, block: Block, frame: list[Value], arguments: Sequence[Value]) -> Values:
        for slot, argument in zip(block.arguments, arguments, strict=True):
            frame[slot] = argument
        for operation in block.operations:
            handler = self._handlers.get(operation.name)
            if handler is None:
                if operation.name in TERMINATORS:
                    return tuple(frame[slot] for slot in operation.operands)
                raise Stopped(operation.name, operation.location)
            try:
                made = handler(self, operation, frame)
            except Stopped:
                raise
            except CannotExecute as error:
                raise _located(error, operation) from error
            if operation.results:
                assert made is not None
                values = made if isinstance(made, tuple) else (made,)
                for slot, value in zip(operation.results, values, strict=True):
                    frame[slot] = value
            for slot in operation.frees:
                frame[slot] = _EMPTY
        return ()

    def _blocks(self, region: TtirRegion, frame: list[Value], arguments: Sequence[Value]) -> Values:
        """Unstructured control flow: of the blocks that programs wait at, the first in topological order runs next."""
        order = {block.label: at for at, block in enumerate(_reverse_postorder(region))}
        blocks = {block.label: block for block in region.blocks}
        everybody = np.ones(self.width, np.bool_) if self.active is None else self.active
        waiting: dict[str, tuple[Array, Values]] = {region.entry.label: (everybody, tuple(arguments))}
        returned: tuple[Array, Values] | None = None
        laps: dict[str, Lap] = {}
        while waiting:
            label = min(waiting, key=lambda name: order[name])
            programs, values = waiting.pop(label)
            block = blocks[label]
            last = block.operations[-1]
            with self.only(None if programs.all() else programs):
                handed = self._straight(block, frame, values)
            if last.name not in {"cf.br", "cf.cond_br"}:
                returned = (programs, handed if returned is None else self.merge(programs, handed, returned[1]))
                continue
            for successor, going in self._targets(last, frame, programs):
                if not going.any():
                    continue
                given = tuple(frame[slot] for slot in successor.arguments)
                goes_back = order[successor.block] <= order[label]
                laps[successor.block] = self.back_edge(laps.get(successor.block), given) if goes_back else None
                if successor.block in waiting:
                    others, held = waiting[successor.block]
                    waiting[successor.block] = (others | going, self.merge(going, given, held))
                else:
                    waiting[successor.block] = (going, given)
        if any(laps.values()):
            self.left_loop()
        return returned[1] if returned else ()

    def _targets(self, branch: Operation, frame: list[Value], programs: Array):  # noqa: ANN202 - private pairs
        if branch.name == "cf.br":
            return ((branch.successors[0], programs),)
        condition = frame[branch.operands[0]]
        assert isinstance(condition, np.ndarray)
        taken = np.broadcast_to(condition, (self.width,))
        return ((branch.successors[0], programs & taken), (branch.successors[1], programs & ~taken))

    # --- merging what programs did on different ways ---

    def merge(self, programs: Array, new: Values, old: Values) -> Values:
        """New values for `programs`, old ones for the others."""
        return tuple(self.select(programs, left, right) for left, right in zip(new, old, strict=True))

    def select(self, chosen: Array, left: Value, right: Value) -> Value:
        """`left` where chosen, else `right`; chosen has one vote a program, or is a block's mask."""
        if left is right:
            return left
        if isinstance(left, Descriptor) or isinstance(right, Descriptor):
            return self._one_descriptor(chosen, left, right)
        if isinstance(left, Pointers | Several) or isinstance(right, Pointers | Several):
            if not (isinstance(left, Pointers | Several) and isinstance(right, Pointers | Several)):
                raise CannotExecute("a choice between a pointer and a number")
            return self._one_of(chosen, left, right)
        return _where(chosen, left, right)

    @staticmethod
    def _one_of(chosen: Array, left: Pointers | Several, right: Pointers | Several) -> Pointers | Several:
        """Each lane's choice; where all choose the same, the pointers stay as they are."""
        if chosen.all():
            return left
        if not chosen.any():
            return right
        rank = ways_of(left)[0][0].ndim
        chosen = chosen.reshape(*chosen.shape, *(1,) * (rank - chosen.ndim))
        return Several.of(
            [
                *((chosen & mask, way) for mask, way in ways_of(left)),
                *((~chosen & mask, way) for mask, way in ways_of(right)),
            ]
        )

    def _one_descriptor(self, chosen: Array, left: Value, right: Value) -> Descriptor:
        if not (isinstance(left, Descriptor) and isinstance(right, Descriptor)):
            raise CannotExecute("a choice between a tensor descriptor and something else")

        def pairs(ours: tuple[Array, ...], others: tuple[Array, ...]) -> tuple[Array, ...]:
            return tuple(_where(chosen, one, other) for one, other in zip(ours, others, strict=True))

        return Descriptor(
            self._one_of(chosen, left.base, right.base),
            pairs(left.extents, right.extents),
            pairs(left.strides, right.strides),
            *pairs((left.pads_with_nan, left.rounds_to_tf32), (right.pads_with_nan, right.rounds_to_tf32)),
        )


def _located(error: CannotExecute, operation: Operation) -> Stopped:
    if isinstance(error, RunsAway):
        return Runaway(error.what, operation.location)
    return Stopped(f"{operation.name}: {error.what}", operation.location)


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


def _where(chosen: Array, left: Array, right: Array) -> Array:
    if chosen.ndim < left.ndim:
        chosen = chosen.reshape(-1, *(1,) * (left.ndim - 1))
    return np.where(chosen, left, right)


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
    """Elements of the largest block that one program holds."""
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
    """A zero of a type, un-broadcast."""
    return np.zeros((1,) * (1 + len(kind.shape)), carrier(kind.element))
