"""Executes one launch: control flow over all programs of the grid at once.

Every value carries a leading axis of programs, of length 1 where it is the same for all.  Where programs part ways,
both ways run under a mask of programs and the results are selected: TTIR is SSA, so that is all it takes.  What a
single operation does is in the `operations_*` tables; an operation in none of them ends the case as unsupported, by
name.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.errors import CannotExecute
from harness.model.case import LaneFill
from harness.virtual.elements import Array, carrier
from harness.virtual.ir import Block, Function, Module, Operation, Region, Type
from harness.virtual.memory import Memory
from harness.virtual.pointers import Descriptor, Pointers

Value = Array | Pointers | Descriptor
Values = tuple[Value, ...]
Handler = Callable[["Machine", Operation, list[Value]], "Value | Values | None"]

CHUNK_ELEMENTS = 1 << 19
"""Programs run side by side as long as their largest block stays below this many elements: a few megabytes."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The extents of a launch."""

    x: int
    y: int
    z: int

    @property
    def programs(self) -> int:
        """How many programs run."""
        return self.x * self.y * self.z


class Stopped(CannotExecute):
    """What could not be executed, with the operation's location."""

    def __init__(self, what: str, location: str) -> None:
        super().__init__(what)
        self.location = location


class Machine:
    """One launch of one module."""

    def __init__(
        self, module: Module, memory: Memory, grid: Grid, lane_fill: LaneFill, handlers: Mapping[str, Handler]
    ) -> None:
        self.module = module
        self.memory = memory
        self.grid = grid
        self.lane_fill = lane_fill
        self.polled: set[int] = set()
        """Numbers of the arguments that volatile loads read."""
        self.active: Array | None = None
        """Programs that take part in what is being executed; None means all."""
        self._handlers = handlers
        self._ids: Array = np.zeros(0, np.int64)

    def run(self, arguments: Sequence[Value]) -> None:
        """Execute every program of the grid.

        Raises:
            Stopped: an operation is not known, or cannot be executed as it stands.
        """
        kernel = self.module.kernel
        chunk = max(1, CHUNK_ELEMENTS // max(1, largest_block(kernel.body)))
        with np.errstate(all="ignore"):
            for first in range(0, self.grid.programs, chunk):
                self._ids = np.arange(first, min(first + chunk, self.grid.programs), dtype=np.int64)
                self.__dict__.pop("numbers", None)
                self.active = None
                self.call(kernel, arguments)

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

    def votes(self, condition: Array) -> tuple[Array, bool, bool]:
        """A scalar condition as one vote a program, whether any active program says yes, and whether any says no."""
        votes = (
            np.broadcast_to(condition, (self.width,)) if self.active is not None or len(condition) > 1 else condition
        )
        if self.active is None:
            return votes, bool(votes.any()), not votes.all()
        return votes & self.active, bool((votes & self.active).any()), bool((~votes & self.active).any())

    # --- functions, regions, blocks ---

    def call(self, function: Function, arguments: Sequence[Value]) -> Values:
        """Run a function and return what its `tt.return` hands back."""
        frame: list[Value] = [_EMPTY] * function.slots
        for parameter, argument in zip(function.parameters, arguments, strict=True):
            frame[parameter.slot] = argument
        return self.region(function.body, frame)

    def region(self, region: Region, frame: list[Value], arguments: Sequence[Value] = ()) -> Values:
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
                raise Stopped(f"{operation.name}: {error.what}", operation.location) from error
            if operation.results:
                assert made is not None
                values = made if isinstance(made, tuple) else (made,)
                for slot, value in zip(operation.results, values, strict=True):
                    frame[slot] = value
            for slot in operation.frees:
                frame[slot] = _EMPTY
        return ()

    def _blocks(self, region: Region, frame: list[Value], arguments: Sequence[Value]) -> Values:
        """Unstructured control flow: of the blocks that programs wait at, the first in topological order runs next."""
        order = {block.label: at for at, block in enumerate(_reverse_postorder(region))}
        blocks = {block.label: block for block in region.blocks}
        everybody = np.ones(self.width, np.bool_) if self.active is None else self.active
        waiting: dict[str, tuple[Array, Values]] = {region.entry.label: (everybody, tuple(arguments))}
        returned: tuple[Array, Values] | None = None
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
                if successor.block in waiting:
                    others, held = waiting[successor.block]
                    waiting[successor.block] = (others | going, self.merge(going, given, held))
                else:
                    waiting[successor.block] = (going, given)
        return returned[1] if returned else ()

    def _targets(self, branch: Operation, frame: list[Value], programs: Array):  # noqa: ANN202 - private pairs
        if branch.name == "cf.br":
            return ((branch.successors[0], programs),)
        condition = frame[branch.operands[0]]
        assert not isinstance(condition, Pointers | Descriptor)
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
            raise CannotExecute("a choice between tensor descriptors")
        if isinstance(left, Pointers) or isinstance(right, Pointers):
            if not (isinstance(left, Pointers) and isinstance(right, Pointers)):
                raise CannotExecute("a choice between a pointer and a number")
            if left.argument != right.argument:
                return self._one_of(chosen, left, right)
            index = _where(chosen, left.index(), right.in_units_of(left.element_bytes).index())
            return Pointers(left.argument, left.element_bytes, (index,))
        return _where(chosen, left, right)

    def _one_of(self, chosen: Array, left: Pointers, right: Pointers) -> Pointers:
        """One of two pointers into different arguments, where all programs that take part choose the same."""
        if self.active is not None and chosen.shape[0] == self.width:
            chosen = chosen[self.active]
        if chosen.all():
            return left
        if not chosen.any():
            return right
        raise CannotExecute("pointers into different arguments, chosen by program")


_EMPTY: Array = np.zeros(0, np.int8)
TERMINATORS = frozenset(
    {"scf.yield", "scf.condition", "tt.return", "tt.reduce.return", "tt.scan.return", "cf.br", "cf.cond_br"}
)


def _where(chosen: Array, left: Array, right: Array) -> Array:
    if chosen.ndim < left.ndim:
        chosen = chosen.reshape(-1, *(1,) * (left.ndim - 1))
    return np.where(chosen, left, right)


def _reverse_postorder(region: Region) -> list[Block]:
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


def largest_block(region: Region) -> int:
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
