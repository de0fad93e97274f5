"""Control flow of one program: loops, choices, branches, calls.  A program goes its own way, so none needs a mask."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import CannotExecute
from harness.virtual.machine import MOST_TRIPS
from harness.virtual.native.lane_values import LaneValues, register
from harness.virtual.native.llvm_text import Assembly
from harness.virtual.native.lowering import Lower, Lowering, Value
from harness.virtual.native.rounding import resized
from harness.virtual.native.tiles import ArenaBuffer, Pointer, Tile, new_buffer
from harness.virtual.ttir.ir import Operation, TtirRegion

DEEPEST_CALL = 16


@dataclass(slots=True)
class _Carried:
    """A value that each trip of a loop replaces: a scalar in a stack slot, or one of two buffers in turn."""

    origin: Value
    slot: str
    """Holds the scalar, or the address of the buffer in use."""
    spare: str | None
    """Holds the address of the other buffer."""
    rooms: tuple[ArenaBuffer, ...] = ()

    @property
    def tile(self) -> Tile:
        return self.origin.index if isinstance(self.origin, Pointer) else self.origin

    def value(self, lowering: Lowering) -> Value:
        """What it holds here."""
        tile = self.tile
        if tile.shape:
            held = ArenaBuffer(tile.shape, tile.element, 0, self.slot, self.rooms).tile()
        else:
            kind = register(tile.element)
            held = lowering.known(LaneValues(kind, lowering.code.value(f"load {kind}, ptr {self.slot}")), tile.element)
        return _like(self.origin, held)


def _like(origin: Value, tile: Tile) -> Value:
    return Pointer(origin.argument, origin.element, tile) if isinstance(origin, Pointer) else tile


def _numbers(origin: Value, value: Value) -> Tile:
    """A value that takes the place of another: the same argument's, where they are pointers."""
    if isinstance(origin, Pointer) and isinstance(value, Pointer):
        if (origin.argument, origin.element) != (value.argument, value.element):
            raise CannotExecute("pointers into different arguments in native code")
        return value.index
    if isinstance(origin, Tile) and isinstance(value, Tile):
        return value
    raise CannotExecute("a choice between a pointer and a number")


def _carry(lowering: Lowering, origin: Value) -> _Carried:
    code = lowering.code
    tile = origin.index if isinstance(origin, Pointer) else origin
    if not tile.shape:
        slot = code.slot(register(tile.element))
        _set(lowering, slot, tile)
        return _Carried(origin, slot, None)
    rooms = tuple(new_buffer(lowering.arena, tile.shape, tile.element) for _ in range(2))
    lowering.fill(rooms[0], tile)
    slots = [code.slot("ptr") for _ in rooms]
    for slot, room in zip(slots, rooms, strict=True):
        code.do(f"store ptr {room.address(code)}, ptr {slot}")
    return _Carried(origin, slots[0], slots[1], rooms)


def _set(lowering: Lowering, slot: str, tile: Tile) -> None:
    settled = lowering.settled(tile)
    lanes = settled.recipe(lowering.scope(), ())
    lowering.code.do(f"store {lanes.kind} {lanes.name}, ptr {slot}")


def _replace(lowering: Lowering, carried: Sequence[_Carried], held: Sequence[Value], values: Sequence[Value]) -> None:
    """Put the values of the next trip in place; `held` is what this trip began with."""
    code = lowering.code
    changed = [
        (one, _numbers(one.origin, value))
        for one, before, value in zip(carried, held, values, strict=True)
        if value is not before
    ]
    for one, tile in changed:
        if one.spare is not None:
            lowering.fill(ArenaBuffer(tile.shape, tile.element, 0, one.spare), tile)
    for one, tile in changed:
        if one.spare is None:
            _set(lowering, one.slot, tile)
        else:
            now, following = (code.value(f"load ptr, ptr {slot}") for slot in (one.slot, one.spare))
            code.do(f"store ptr {following}, ptr {one.slot}")
            code.do(f"store ptr {now}, ptr {one.spare}")


def for_loop(lowering: Lowering, operation: Operation) -> list[Value]:
    """`scf.for`: the trips are counted first, as the machine does."""
    code = lowering.code
    is_unsigned = bool(operation.attributes.get("unsigned"))
    bounds = [lowering.scalar(slot) for slot in operation.operands[:3]]
    lower, upper, step = (resized(code, bound, "i64", signed=not is_unsigned).name for bound in bounds)
    carried = [_carry(lowering, lowering.value(slot)) for slot in operation.operands[3:]]
    trips = _trips(code, lower, upper, step)
    code.doubt(code.value(f"icmp sgt i64 {trips}, {MOST_TRIPS}"))
    code.leave_in_doubt(lowering.names.bail)
    block = operation.regions[0].entry
    kind = bounds[0].kind
    with code.loop(trips) as trip:
        narrow = trip if kind == "i64" else code.value(f"trunc i64 {trip} to {kind}")
        gone = code.value(f"mul {kind} {bounds[2].name}, {narrow}")
        index = LaneValues(kind, code.value(f"add {kind} {bounds[0].name}, {gone}"))
        held = [one.value(lowering) for one in carried]
        _enter(lowering, block.arguments, [lowering.known(index, operation.operand_types[0].element), *held])
        _replace(lowering, carried, held, _only_block(lowering, operation.regions[0]))
    return [one.value(lowering) for one in carried]


def _trips(code: Assembly, lower: str, upper: str, step: str) -> str:
    one = code.call("i64", "llvm.smax.i64", ("i64", step), ("i64", "1"))
    apart = code.value(f"sub i64 {upper}, {lower}")
    more = code.value(f"add i64 {apart}, {code.value(f'sub i64 {one}, 1')}")
    trips = code.value(f"sdiv i64 {more}, {one}")
    some = code.value(f"icmp sgt i64 {apart}, 0")
    return code.value(f"select i1 {some}, i64 {trips}, i64 0")


def _enter(lowering: Lowering, slots: Sequence[int], values: Sequence[Value]) -> None:
    lowering.values.update(zip(slots, values, strict=True))


def _only_block(lowering: Lowering, region: TtirRegion) -> list[Value]:
    if len(region.blocks) > 1:
        raise CannotExecute("branches inside structured control flow in native code")
    return lowering.straight(region.entry)


def if_else(lowering: Lowering, operation: Operation) -> list[Value]:
    """`scf.if`."""
    code = lowering.code
    condition = lowering.scalar(operation.operands[0])
    labels = [code.fresh(hint) for hint in ("then", "else", "end")]
    code.branch(condition.name, labels[0], labels[1])
    ends: list[_Chosen] = []
    for label, region in zip(labels, operation.regions, strict=False):
        code.start(label)
        values = _only_block(lowering, region)
        if not ends:
            ends = [_Chosen.like(lowering, value) for value in values]
        for end, value in zip(ends, values, strict=True):
            end.set(lowering, value)
        code.jump(labels[2])
    if len(operation.regions) < 2:
        code.start(labels[1])
        code.jump(labels[2])
    code.start(labels[2])
    return [end.value(lowering) for end in ends]


@dataclass(slots=True)
class _Chosen:
    """A value that several ways through the code may set: in a stack slot or a buffer."""

    origin: Value
    tile: Tile
    slot: str
    buffer: ArenaBuffer | None

    @classmethod
    def like(cls, lowering: Lowering, value: Value) -> "_Chosen":
        tile = value.index if isinstance(value, Pointer) else value
        if tile.shape:
            return cls(value, tile, "", new_buffer(lowering.arena, tile.shape, tile.element))
        return cls(value, tile, lowering.code.slot(register(tile.element)), None)

    def set(self, lowering: Lowering, value: Value) -> None:
        tile = _numbers(self.origin, value)
        if self.buffer is None:
            _set(lowering, self.slot, tile)
        else:
            lowering.fill(self.buffer, tile)

    def value(self, lowering: Lowering) -> Value:
        if self.buffer is not None:
            return _like(self.origin, self.buffer.tile())
        kind = register(self.tile.element)
        held = LaneValues(kind, lowering.code.value(f"load {kind}, ptr {self.slot}"))
        return _like(self.origin, lowering.known(held, self.tile.element))


def while_loop(lowering: Lowering, operation: Operation) -> list[Value]:
    """`scf.while`; one that polls memory may wait for another program, which only the machine can tell."""
    _refuse_polling(operation.regions)
    code = lowering.code
    before, after = operation.regions
    carried = [_carry(lowering, lowering.value(slot)) for slot in operation.operands]
    head, body, done = (code.fresh(hint) for hint in ("while", "do", "done"))
    trips = code.slot("i64")
    code.do(f"store i64 0, ptr {trips}")
    code.jump(head)
    code.start(head)
    trip = code.value(f"add i64 {code.value(f'load i64, ptr {trips}')}, 1")
    code.do(f"store i64 {trip}, ptr {trips}")
    code.doubt(code.value(f"icmp sgt i64 {trip}, {MOST_TRIPS}"))
    code.leave_in_doubt(lowering.names.bail)
    held = [one.value(lowering) for one in carried]
    _enter(lowering, before.entry.arguments, held)
    condition, *handed = _only_block(lowering, before)
    if not isinstance(condition, Tile):
        raise CannotExecute("a pointer as a condition")
    vote = condition.recipe(lowering.scope(), ())
    code.branch(vote.name, body, done)
    code.start(body)
    _enter(lowering, after.entry.arguments, handed)
    _replace(lowering, carried, [None] * len(carried), _only_block(lowering, after))  # type: ignore[list-item]
    code.jump(head)
    code.start(done)
    return handed


def _refuse_polling(regions: Sequence[TtirRegion]) -> None:
    for region in regions:
        for inner in region.all_operations():
            if inner.name.startswith("tt.atomic") or inner.attributes.get("isVolatile") or inner.name == "tt.call":
                raise CannotExecute("a loop that may wait for another program")


# --- branches and calls ---


def body_of(lowering: Lowering, region: TtirRegion) -> list[Value]:
    """A function's body; returns what it returns."""
    if len(region.blocks) == 1:
        return lowering.straight(region.entry)
    order = _topological(region)
    code = lowering.code
    labels = {label: code.fresh("block") for label in order}
    blocks = {block.label: block for block in region.blocks}
    done = code.fresh("returned")
    given: dict[str, list[_Chosen]] = {}
    ends: list[_Chosen] | None = None
    code.jump(labels[region.entry.label])
    for label in order:
        block = blocks[label]
        code.start(labels[label])
        if label in given:
            _enter(lowering, block.arguments, [one.value(lowering) for one in given[label]])
        values = lowering.straight(block)
        last = block.operations[-1]
        if last.name not in {"cf.br", "cf.cond_br"}:
            ends = ends if ends is not None else [_Chosen.like(lowering, value) for value in values]
            for end, value in zip(ends, values, strict=True):
                end.set(lowering, value)
            code.jump(done)
            continue
        _hand_over(lowering, last, given)
        targets = [labels[successor.block] for successor in last.successors]
        if last.name == "cf.br":
            code.jump(targets[0])
        else:
            code.branch(lowering.scalar(last.operands[0]).name, *targets)
    code.start(done)
    return [end.value(lowering) for end in ends or ()]


def _hand_over(lowering: Lowering, branch: Operation, given: dict[str, list[_Chosen]]) -> None:
    """Set the arguments of both targets: each target reads its own only where control comes from."""
    for successor in branch.successors:
        values = [lowering.value(slot) for slot in successor.arguments]
        if not values:
            continue
        places = given.setdefault(successor.block, [])
        if not places:
            places.extend(_Chosen.like(lowering, value) for value in values)
        if sum(other.block == successor.block for other in branch.successors) > 1:
            raise CannotExecute("a branch whose ways are one block in native code")
        for place, value in zip(places, values, strict=True):
            place.set(lowering, value)


def _topological(region: TtirRegion) -> list[str]:
    """The blocks' labels in an order in which control only goes forward.

    Raises:
        CannotExecute: control goes back: such a loop may wait for another program.
    """
    blocks = {block.label: block for block in region.blocks}
    order: list[str] = []
    under_way: set[str] = set()

    def visit(label: str) -> None:
        if label in under_way:
            raise CannotExecute("a loop of branches in native code")
        if label in order:
            return
        under_way.add(label)
        for operation in blocks[label].operations[-1:]:
            for successor in operation.successors:
                visit(successor.block)
        under_way.discard(label)
        order.append(label)

    visit(region.entry.label)
    return order[::-1]


def call(lowering: Lowering, operation: Operation) -> list[Value]:
    """`tt.call`: the function's body, in place."""
    callee = lowering.module.functions.get(str(operation.attributes["callee"]))
    if callee is None or lowering.depth >= DEEPEST_CALL:
        raise CannotExecute(f"a call of {operation.attributes['callee']} in native code")
    arguments = [lowering.value(slot) for slot in operation.operands]
    with lowering.inside(callee.body):
        _enter(lowering, [parameter.slot for parameter in callee.parameters], arguments)
        return body_of(lowering, callee.body)


HANDLERS: Mapping[str, Lower] = {
    "scf.for": for_loop,
    "scf.if": if_else,
    "scf.while": while_loop,
    "tt.call": call,
}
