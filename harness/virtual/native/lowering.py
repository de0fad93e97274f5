"""Walks a kernel's operations and writes its code: what stays a recipe, what becomes a buffer.

What a single operation becomes is in the tables of the files beside this one.  Whatever native code does not know
raises `CannotExecute`, and the launch stays with the machine.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.errors import CannotExecute
from harness.virtual.machine import TERMINATORS
from harness.virtual.native.arith import COSTS, RULES
from harness.virtual.native.lane_values import LaneValues
from harness.virtual.native.llvm_text import Assembly, plus, times
from harness.virtual.native.tiles import Arena, ArenaBuffer, Index, Pointer, Scope, Tile, constant_tile, new_buffer
from harness.virtual.ttir.ir import Block, Module, Operation, TtirRegion

Value = Tile | Pointer
Lower = Callable[["Lowering", Operation], "Sequence[Value] | Value | None"]

CHEAP = 6
"""A recipe of so few simple instructions is written again at each use."""
CHEAP_INDEX = 40
"""The same for integers, whose recipes also tell that a row's addresses are neighbours."""
ZERO = LaneValues("i64", "0")


@dataclass(frozen=True, slots=True)
class Target:
    """What the code is made for."""

    width: int
    """Lanes of a vector."""
    has_fma: bool
    tracked: frozenset[int]
    """Arguments whose cells keep who touched them: their memory is stored to by the kernel."""


@dataclass(frozen=True, slots=True)
class ReportedLoad:
    """A load, of which native code tells what it left undefined and what it read too early."""

    operation: int
    """The operation's number in `numbered`."""
    argument: int


@dataclass(slots=True)
class PreparedNames:
    """What the code of one program finds ready."""

    program: str
    """The linear program id, an i64."""
    number: str
    """The same plus one, an i32."""
    grid: tuple[str, str, str]
    counters: str
    fill: str
    records: str
    pointers: Mapping[int, tuple[str, ...]]
    """An argument's words."""
    bail: str
    """The block that gives the launch up."""


@dataclass(slots=True)
class _Uses:
    """How often each value of a function is used, and whether outside the block that defines it."""

    count: dict[int, int] = field(default_factory=dict[int, int])
    elsewhere: set[int] = field(default_factory=set[int])


class Lowering:
    """One kernel on its way to native code."""

    def __init__(self, module: Module, target: Target, handlers: Mapping[str, Lower]) -> None:
        self.module = module
        self.target = target
        self.code = Assembly()
        self.arena = Arena()
        self.values: dict[int, Value] = {}
        self.sites: list[ReportedLoad] = []
        self.names = PreparedNames("", "", ("", "", ""), "", "", "", {}, "")
        self.depth = 0
        self._handlers = handlers
        self._numbers = {id(operation): number for number, operation in enumerate(numbered(module))}
        self._uses = _Uses()

    def site(self, operation: Operation, argument: int) -> int:
        """A number for a load."""
        self.sites.append(ReportedLoad(self._numbers[id(operation)], argument))
        return len(self.sites) - 1

    # --- values ---

    def value(self, slot: int) -> Value:
        """What a slot holds."""
        return self.values[slot]

    def tile(self, slot: int) -> Tile:
        """What a slot holds, which must be numbers."""
        found = self.values[slot]
        if not isinstance(found, Tile):
            raise CannotExecute("a pointer where a number is expected")
        return found

    def pointer(self, slot: int) -> Pointer:
        """What a slot holds, which must be pointers."""
        found = self.values[slot]
        if not isinstance(found, Pointer):
            raise CannotExecute("a pointer that was computed from an integer")
        return found

    def scalar(self, slot: int) -> LaneValues:
        """A number that a slot holds."""
        return Scope(self.code).at(self.tile(slot), ())

    def known(self, lanes: LaneValues, element: str) -> Tile:
        """A number as a value."""
        return constant_tile((), element, lanes)

    def settled(self, tile: Tile, *, slot: int | None = None) -> Tile:
        """A tile as it is kept: computed now, or as a recipe where writing that again at its uses costs little."""
        if not tile.shape:
            return self.known(Scope(self.code).at(tile, ()), tile.element)
        limit = CHEAP_INDEX if tile.element.startswith("i") or tile.element == "ptr" else CHEAP
        if tile.cost <= limit:
            return tile
        if slot is not None and self._uses.count.get(slot, 0) <= 1 and slot not in self._uses.elsewhere:
            return tile
        return self.buffered(tile).tile()

    def buffered(self, tile: Tile) -> ArenaBuffer:
        """A tile's elements, all computed."""
        if tile.buffer is not None and tile.buffer.shape == tile.shape:
            return tile.buffer
        buffer = new_buffer(self.arena, tile.shape, tile.element)
        self.fill(buffer, tile)
        return buffer

    def fill(self, buffer: ArenaBuffer, tile: Tile) -> None:
        """Compute a tile's elements into a buffer."""

        def body(index: Index) -> None:
            buffer.write(self.code, index, Scope(self.code).at(tile, index))

        self.nest(tile.shape, body)

    # --- loops over tiles ---

    def nest(self, shape: tuple[int, ...], body: Callable[[Index], None], *, vectors: bool = True) -> None:
        """Write `body` inside loops over a shape; its index runs along a vector on the last axis longer than one."""
        long = [axis for axis, extent in enumerate(shape) if extent > 1]
        self._nest(shape, body, [ZERO] * len(shape), 0, long[-1] if long and vectors else None)

    def _nest(
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
            self._nest(shape, body, index, axis + 1, along)
        elif axis == along:
            width = min(self.target.width, extent)
            with self.code.loop(extent // width) as trip:
                index[axis] = LaneValues("i64", times(self.code, trip, width), width, 1)
                self._nest(shape, body, index, axis + 1, along)
        else:
            with self.code.loop(extent) as trip:
                index[axis] = LaneValues("i64", trip)
                self._nest(shape, body, index, axis + 1, along)

    def moved(self, position: LaneValues, distance: int) -> LaneValues:
        """A position some elements further on."""
        return LaneValues(position.kind, plus(self.code, position.name, str(distance)), position.width, position.step)

    # --- operations ---

    def straight(self, block: Block) -> list[Value]:
        """Write a block; returns what its terminator hands on."""
        for operation in block.operations:
            if operation.name in TERMINATORS:
                handed = [self.values[slot] for slot in operation.operands]
                self._forget(operation)
                return handed
            self._lower(operation)
            self._forget(operation)
        return []

    def _lower(self, operation: Operation) -> None:
        rule = RULES.get(operation.name)
        handler = self._handlers.get(operation.name)
        if handler is not None:
            made = handler(self, operation)
        elif rule is not None:
            made = self.elementwise(operation)
        else:
            raise CannotExecute(f"{operation.name} in native code")
        if made is None:
            made = ()
        values = (made,) if isinstance(made, Tile | Pointer) else made
        for slot, value in zip(operation.results, values, strict=True):
            if isinstance(value, Pointer):
                index = self.settled(value.index, slot=slot) if not value.index.shape else value.index
                self.values[slot] = Pointer(value.argument, value.element, index)
            else:
                self.values[slot] = self.settled(value, slot=slot)

    def elementwise(self, operation: Operation) -> Tile:
        """An operation of the table of rules, as a recipe."""
        rule = RULES[operation.name]
        operands = [self.tile(slot) for slot in operation.operands]
        kind = operation.result_types[0]

        def recipe(scope: Scope, index: Index) -> LaneValues:
            lanes = [scope.at(tile, index if tile.shape else ()) for tile in operands]
            return rule(scope.code, operation, lanes)

        cost = COSTS.get(operation.name, 1) + sum(tile.cost for tile in operands)
        return Tile(kind.shape, kind.element, recipe, cost)

    def _forget(self, operation: Operation) -> None:
        for slot in operation.frees:
            self.values.pop(slot, None)

    # --- functions ---

    @contextmanager
    def inside(self, body: TtirRegion) -> Generator[None]:
        """Write a function's body in place, with values of its own."""
        outer = (self.values, self._uses)
        self.values, self._uses = {}, _Uses()
        self.depth += 1
        _count(body, self._uses, {})
        yield
        self.depth -= 1
        self.values, self._uses = outer

    def scope(self) -> Scope:
        """For computing something right here."""
        return Scope(self.code)


def numbered(module: Module) -> list[Operation]:
    """All operations of a module, in an order that its text alone decides."""
    return [operation for function in module.functions.values() for operation in function.body.all_operations()]


def _count(region: TtirRegion, uses: _Uses, defined: dict[int, int]) -> None:
    for block in region.blocks:
        here = id(block)
        for operation in block.operations:
            used = [*operation.operands, *(slot for to in operation.successors for slot in to.arguments)]
            for slot in used:
                uses.count[slot] = uses.count.get(slot, 0) + 1
                if defined.get(slot, here) != here:
                    uses.elsewhere.add(slot)
            for inner in operation.regions:
                _count(inner, uses, defined)
            for slot in operation.results:
                defined[slot] = here
