"""Walks a kernel's operations and writes their code; decides which tiles stay lazy and which become buffers.

A lazy tile writes the code for its lanes again at each use.  A buffered tile is computed once into the arena.  The
lowering of each operation is in the tables of the other files.  Operations that native code does not support raise
`CannotExecute`, and the launch stays with the machine.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.engines.ttir.ir import Block, Module, Operation, TtirRegion
from harness.engines.ttir.wide_accesses import Vector, wide_accesses
from harness.engines.virtual.machine import TERMINATORS
from harness.engines.virtual.native.arith import COSTS, RULES
from harness.engines.virtual.native.lane_values import LaneValues
from harness.engines.virtual.native.llvm_text import Assembly, plus, times
from harness.engines.virtual.native.product_code import ProductBlock
from harness.engines.virtual.native.tiles import (
    Arena,
    ArenaBuffer,
    Index,
    Pointer,
    Scope,
    Tile,
    constant_tile,
    new_buffer,
)
from harness.errors import CannotExecute
from harness.model.device import Vendor

Value = Tile | Pointer
Lower = Callable[["Lowering", Operation], "Sequence[Value] | Value | None"]

CHEAP = 6
"""A float tile stays lazy up to this many simple instructions per lane."""
CHEAP_INDEX = 40
"""The limit for integers: lazy index tiles stay ramps, so accesses see that addresses are neighbours."""
ZERO = LaneValues("i64", "0")


@dataclass(frozen=True, slots=True)
class Target:
    """Properties of the CPU and of the launch that the code depends on."""

    width: int
    """The number of lanes of a vector."""
    has_fma: bool
    tracked: frozenset[int]
    """Numbers of the arguments with a shadow: the kernel may store to their memory."""
    vendor: Vendor
    """The vendor of the emulated GPU."""


@dataclass(frozen=True, slots=True)
class ReportedLoad:
    """A load whose undefined lanes and uninitialised reads native code reports."""

    operation: int
    """The operation's index in `numbered`."""
    argument: int


@dataclass(slots=True)
class PreparedNames:
    """LLVM names that the code of one program may use."""

    program: str
    """The linear program id, an i64."""
    number: str
    """The program number (linear id + 1), an i32."""
    grid: tuple[str, str, str]
    counters: str
    fill: str
    records: str
    entered: str
    """The address of the flags of entered blocks."""
    pointers: Mapping[int, tuple[str, ...]]
    """The words of each argument, in the order of `Word`."""
    bail: str
    """The label of the block that returns a bailout."""


@dataclass(slots=True)
class _Uses:
    """How often each SSA value is used, and which are used outside the block that defines them."""

    count: dict[int, int] = field(default_factory=dict[int, int])
    in_other_blocks: set[int] = field(default_factory=set[int])


class Lowering:
    """The state of lowering one kernel."""

    def __init__(self, module: Module, target: Target, handlers: Mapping[str, Lower]) -> None:
        self.module = module
        self.target = target
        self.code = Assembly(target.vendor)
        self.arena = Arena()
        self.values: dict[int, Value] = {}
        self.sites: list[ReportedLoad] = []
        self.products = set[ProductBlock]()
        """The shared code that the kernel calls."""
        self.names = PreparedNames("", "", ("", "", ""), "", "", "", "", {}, "")
        self.depth = 0
        self._handlers = handlers
        self._numbers = {id(operation): number for number, operation in enumerate(numbered(module))}
        self._uses = _Uses()
        self._wide = wide_accesses(module.kernel)

    def site(self, operation: Operation, argument: int) -> int:
        """Register a load and return its site number."""
        self.sites.append(ReportedLoad(self._numbers[id(operation)], argument))
        return len(self.sites) - 1

    def vector(self, operation: Operation) -> Vector | None:
        """Return the lanes that a compiler hint joins in a load or store; None if no hint makes it wider."""
        wide = self._wide.get(id(operation))
        return wide and wide.vector

    # --- values ---

    def value(self, slot: int) -> Value:
        return self.values[slot]

    def tile(self, slot: int) -> Tile:
        """The numbers in a slot.

        Raises:
            CannotExecute: the slot holds a pointer.
        """
        value = self.values[slot]
        if not isinstance(value, Tile):
            raise CannotExecute("a pointer where a number is expected")
        return value

    def pointer(self, slot: int) -> Pointer:
        """The pointers in a slot.

        Raises:
            CannotExecute: the slot holds numbers.
        """
        value = self.values[slot]
        if not isinstance(value, Pointer):
            raise CannotExecute("a pointer that was computed from an integer")
        return value

    def scalar(self, slot: int) -> LaneValues:
        return Scope(self.code).at(self.tile(slot), ())

    def scalar_tile(self, operand_lanes: LaneValues, element: str) -> Tile:
        """A scalar as a tile."""
        return constant_tile((), element, operand_lanes)

    def materialize_if_costly(self, tile: Tile, *, slot: int | None = None) -> Tile:
        """Compute a tile now if computing it again at each use is expensive; scalars are always computed."""
        if not tile.shape:
            return self.scalar_tile(Scope(self.code).at(tile, ()), tile.element)
        limit = CHEAP_INDEX if tile.element.startswith("i") or tile.element == "ptr" else CHEAP
        if tile.cost <= limit:
            return tile
        if slot is not None and self._uses.count.get(slot, 0) <= 1 and slot not in self._uses.in_other_blocks:
            return tile
        return self.buffered(tile).tile()

    def buffered(self, tile: Tile) -> ArenaBuffer:
        """Compute all elements of a tile into a buffer, unless they are in one."""
        if tile.buffer is not None and tile.buffer.shape == tile.shape:
            return tile.buffer
        buffer = new_buffer(self.arena, tile.shape, tile.element)
        self.fill(buffer, tile)
        return buffer

    def fill(self, buffer: ArenaBuffer, tile: Tile) -> None:
        """Compute a tile's elements into a buffer."""

        def body(index: Index) -> None:
            buffer.write(self.code, index, Scope(self.code).at(tile, index))

        self.loop_over(tile.shape, body)

    # --- loops over tiles ---

    def loop_over(self, shape: tuple[int, ...], body: Callable[[Index], None], *, vectors: bool = True) -> None:
        """Write `body` inside loops over a shape; on the last axis longer than 1, its index is a vector."""
        long_axes = [axis for axis, extent in enumerate(shape) if extent > 1]
        self._loop_over(shape, body, [ZERO] * len(shape), 0, long_axes[-1] if long_axes and vectors else None)

    def _loop_over(
        self,
        shape: tuple[int, ...],
        body: Callable[[Index], None],
        index: list[LaneValues],
        axis: int,
        along: int | None,
    ) -> None:
        if axis == len(shape):
            body(tuple(index))
            return
        extent = shape[axis]
        if extent == 1:
            self._loop_over(shape, body, index, axis + 1, along)
        elif axis == along:
            width = min(self.target.width, extent)
            with self.code.loop(extent // width) as trip:
                index[axis] = LaneValues("i64", times(self.code, trip, width), width, 1)
                self._loop_over(shape, body, index, axis + 1, along)
        else:
            with self.code.loop(extent) as trip:
                index[axis] = LaneValues("i64", trip)
                self._loop_over(shape, body, index, axis + 1, along)

    def advanced(self, position: LaneValues, distance: int) -> LaneValues:
        """A position `distance` elements further on."""
        return LaneValues(position.kind, plus(self.code, position.name, str(distance)), position.width, position.step)

    # --- operations ---

    def lower_block(self, block: Block) -> list[Value]:
        """Lower a block; returns the operands of its terminator."""
        flag = self.code.value(f"getelementptr i8, ptr {self.names.entered}, i64 {block.number}")
        self.code.do(f"store i8 1, ptr {flag}")
        for operation in block.operations:
            if operation.name in TERMINATORS:
                results = [self.values[slot] for slot in operation.operands]
                self._free_values(operation)
                return results
            self._lower(operation)
            self._free_values(operation)
        return []

    def _lower(self, operation: Operation) -> None:
        rule = RULES.get(operation.name)
        handler = self._handlers.get(operation.name)
        if handler is not None:
            results = handler(self, operation)
        elif rule is not None:
            results = self.elementwise(operation)
        else:
            raise CannotExecute(f"{operation.name} in native code")
        if results is None:
            results = ()
        values = (results,) if isinstance(results, Tile | Pointer) else results
        for slot, value in zip(operation.results, values, strict=True):
            if isinstance(value, Pointer):
                index = self.materialize_if_costly(value.index, slot=slot) if not value.index.shape else value.index
                self.values[slot] = Pointer(value.argument, value.element, index)
            else:
                self.values[slot] = self.materialize_if_costly(value, slot=slot)

    def elementwise(self, operation: Operation) -> Tile:
        """Lower an operation of `RULES` to a lazy tile."""
        rule = RULES[operation.name]
        operands = [self.tile(slot) for slot in operation.operands]
        kind = operation.result_types[0]

        def lanes_at(scope: Scope, index: Index) -> LaneValues:
            operand_lanes = [scope.at(tile, index if tile.shape else ()) for tile in operands]
            return rule(scope.code, operation, operand_lanes)

        cost = COSTS.get(operation.name, 1) + sum(tile.cost for tile in operands)
        return Tile(kind.shape, kind.element, lanes_at, cost)

    def _free_values(self, operation: Operation) -> None:
        for slot in operation.frees:
            self.values.pop(slot, None)

    # --- functions ---

    @contextmanager
    def function_scope(self, body: TtirRegion) -> Generator[None]:
        """Lower a function's body inside, with SSA values of its own."""
        outer = (self.values, self._uses)
        self.values, self._uses = {}, _Uses()
        self.depth += 1
        _count_uses(body, self._uses, {})
        yield
        self.depth -= 1
        self.values, self._uses = outer

    def scope(self) -> Scope:
        """A new scope at this point of the code."""
        return Scope(self.code)


def numbered(module: Module) -> list[Operation]:
    """All operations of a module, in an order that depends only on its text."""
    return [operation for function in module.functions.values() for operation in function.body.all_operations()]


def _count_uses(region: TtirRegion, uses: _Uses, defined: dict[int, int]) -> None:
    for block in region.blocks:
        here = id(block)
        for operation in block.operations:
            used = [*operation.operands, *(slot for to in operation.successors for slot in to.arguments)]
            for slot in used:
                uses.count[slot] = uses.count.get(slot, 0) + 1
                if defined.get(slot, here) != here:
                    uses.in_other_blocks.add(slot)
            for inner in operation.regions:
                _count_uses(inner, uses, defined)
            for slot in operation.results:
                defined[slot] = here
