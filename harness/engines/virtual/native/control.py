"""Control flow of one program: loops, conditionals, branches, calls.

Native code runs one program at a time, so it needs no masks of programs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.engines.ttir.ir import Operation, TtirRegion
from harness.engines.virtual.machine import MOST_TRIPS
from harness.engines.virtual.native.lane_values import LaneValues, register
from harness.engines.virtual.native.llvm_text import Assembly
from harness.engines.virtual.native.lowering import Lower, Lowering, Value
from harness.engines.virtual.native.rounding import resized
from harness.engines.virtual.native.tiles import ArenaBuffer, Pointer, Tile, new_buffer
from harness.errors import CannotExecute

DEEPEST_CALL = 16


@dataclass(slots=True)
class _LoopVariable:
    """A loop-carried value: a scalar in a stack slot, or two buffers that trips use in turn."""

    origin: Value
    slot: str
    """The stack slot with the scalar, or with the address of the buffer in use."""
    other_slot: str | None
    """The stack slot with the address of the other buffer; None for a scalar."""
    buffers: tuple[ArenaBuffer, ...] = ()

    @property
    def tile(self) -> Tile:
        return self.origin.index if isinstance(self.origin, Pointer) else self.origin

    def value(self, lowering: Lowering) -> Value:
        """The value at this point of the code."""
        tile = self.tile
        if tile.shape:
            current = ArenaBuffer(tile.shape, tile.element, 0, self.slot, self.buffers).tile()
        else:
            kind = register(tile.element)
            name = lowering.code.value(f"load {kind}, ptr {self.slot}")
            current = lowering.scalar_tile(LaneValues(kind, name), tile.element)
        return _with_index_of(self.origin, current)


def _with_index_of(origin: Value, tile: Tile) -> Value:
    return Pointer(origin.argument, origin.element, tile) if isinstance(origin, Pointer) else tile


def _replacement_tile(origin: Value, value: Value) -> Tile:
    """Return the tile of a value that replaces `origin`; pointers must lead into the same argument."""
    if isinstance(origin, Pointer) and isinstance(value, Pointer):
        if (origin.argument, origin.element) != (value.argument, value.element):
            raise CannotExecute("pointers into different arguments in native code")
        return value.index
    if isinstance(origin, Tile) and isinstance(value, Tile):
        return value
    raise CannotExecute("a choice between a pointer and a number")


def _loop_variable(lowering: Lowering, origin: Value) -> _LoopVariable:
    code = lowering.code
    tile = origin.index if isinstance(origin, Pointer) else origin
    if not tile.shape:
        slot = code.stack_slot(register(tile.element))
        _store_scalar(lowering, slot, tile)
        return _LoopVariable(origin, slot, None)
    buffers = tuple(new_buffer(lowering.arena, tile.shape, tile.element) for _ in range(2))
    lowering.fill(buffers[0], tile)
    slots = [code.stack_slot("ptr") for _ in buffers]
    for slot, buffer in zip(slots, buffers, strict=True):
        code.do(f"store ptr {buffer.address(code)}, ptr {slot}")
    return _LoopVariable(origin, slots[0], slots[1], buffers)


def _store_scalar(lowering: Lowering, slot: str, tile: Tile) -> None:
    kept = lowering.materialize_if_costly(tile)
    lanes = kept.lanes_at(lowering.scope(), ())
    lowering.code.do(f"store {lanes.kind} {lanes.name}, ptr {slot}")


def _advance(
    lowering: Lowering, carried: Sequence[_LoopVariable], current: Sequence[Value], values: Sequence[Value]
) -> None:
    """Store the values of the next trip; `current` are the values at the beginning of this one."""
    code = lowering.code
    changed = [
        (variable, _replacement_tile(variable.origin, value))
        for variable, before, value in zip(carried, current, values, strict=True)
        if value is not before
    ]
    # The new values may depend on all old ones: fill every other buffer before any slot changes.
    for variable, tile in changed:
        if variable.other_slot is not None:
            lowering.fill(ArenaBuffer(tile.shape, tile.element, 0, variable.other_slot), tile)
    for variable, tile in changed:
        if variable.other_slot is None:
            _store_scalar(lowering, variable.slot, tile)
        else:
            old, new = (code.value(f"load ptr, ptr {slot}") for slot in (variable.slot, variable.other_slot))
            code.do(f"store ptr {new}, ptr {variable.slot}")
            code.do(f"store ptr {old}, ptr {variable.other_slot}")


def for_loop(lowering: Lowering, operation: Operation) -> list[Value]:
    """`scf.for`: the trips are counted first, as in the machine."""
    code = lowering.code
    is_unsigned = bool(operation.attributes.get("unsigned"))
    bounds = [lowering.scalar(slot) for slot in operation.operands[:3]]
    lower, upper, step = (resized(code, bound, "i64", signed=not is_unsigned).name for bound in bounds)
    carried = [_loop_variable(lowering, lowering.value(slot)) for slot in operation.operands[3:]]
    trips = _trips(code, lower, upper, step)
    code.request_bailout(code.value(f"icmp sgt i64 {trips}, {MOST_TRIPS}"))
    code.bail_if_requested(lowering.names.bail)
    block = operation.regions[0].entry
    kind = bounds[0].kind
    with code.loop(trips) as trip:
        narrow = trip if kind == "i64" else code.value(f"trunc i64 {trip} to {kind}")
        offset = code.value(f"mul {kind} {bounds[2].name}, {narrow}")
        index = LaneValues(kind, code.value(f"add {kind} {bounds[0].name}, {offset}"))
        current = [variable.value(lowering) for variable in carried]
        _bind(lowering, block.arguments, [lowering.scalar_tile(index, operation.operand_types[0].element), *current])
        _advance(lowering, carried, current, _lower_single_block(lowering, operation.regions[0]))
    return [variable.value(lowering) for variable in carried]


def _trips(code: Assembly, lower: str, upper: str, step: str) -> str:
    stride = code.call("i64", "llvm.smax.i64", ("i64", step), ("i64", "1"))
    apart = code.value(f"sub i64 {upper}, {lower}")
    more = code.value(f"add i64 {apart}, {code.value(f'sub i64 {stride}, 1')}")
    trips = code.value(f"sdiv i64 {more}, {stride}")
    some = code.value(f"icmp sgt i64 {apart}, 0")
    return code.value(f"select i1 {some}, i64 {trips}, i64 0")


def _bind(lowering: Lowering, slots: Sequence[int], values: Sequence[Value]) -> None:
    lowering.values.update(zip(slots, values, strict=True))


def _lower_single_block(lowering: Lowering, region: TtirRegion) -> list[Value]:
    if len(region.blocks) > 1:
        raise CannotExecute("branches inside structured control flow in native code")
    return lowering.lower_block(region.entry)


def if_else(lowering: Lowering, operation: Operation) -> list[Value]:
    """`scf.if`."""
    code = lowering.code
    condition = lowering.scalar(operation.operands[0])
    labels = [code.fresh(hint) for hint in ("then", "else", "end")]
    code.branch(condition.name, labels[0], labels[1])
    ends: list[_Phi] = []
    for label, region in zip(labels, operation.regions, strict=False):
        code.start(label)
        values = _lower_single_block(lowering, region)
        if not ends:
            ends = [_Phi.like(lowering, value) for value in values]
        for end, value in zip(ends, values, strict=True):
            end.set(lowering, value)
        code.jump(labels[2])
    if len(operation.regions) < 2:
        code.start(labels[1])
        code.jump(labels[2])
    code.start(labels[2])
    return [end.value(lowering) for end in ends]


@dataclass(slots=True)
class _Phi:
    """A value set on several control-flow paths, in a stack slot or a buffer."""

    origin: Value
    tile: Tile
    slot: str
    buffer: ArenaBuffer | None

    @classmethod
    def like(cls, lowering: Lowering, value: Value) -> "_Phi":
        tile = value.index if isinstance(value, Pointer) else value
        if tile.shape:
            return cls(value, tile, "", new_buffer(lowering.arena, tile.shape, tile.element))
        return cls(value, tile, lowering.code.stack_slot(register(tile.element)), None)

    def set(self, lowering: Lowering, value: Value) -> None:
        tile = _replacement_tile(self.origin, value)
        if self.buffer is None:
            _store_scalar(lowering, self.slot, tile)
        else:
            lowering.fill(self.buffer, tile)

    def value(self, lowering: Lowering) -> Value:
        if self.buffer is not None:
            return _with_index_of(self.origin, self.buffer.tile())
        kind = register(self.tile.element)
        current = LaneValues(kind, lowering.code.value(f"load {kind}, ptr {self.slot}"))
        return _with_index_of(self.origin, lowering.scalar_tile(current, self.tile.element))


def while_loop(lowering: Lowering, operation: Operation) -> list[Value]:
    """`scf.while`, except loops that poll memory: only the machine's scheduler detects waiting programs."""
    _refuse_polling(operation.regions)
    code = lowering.code
    before, after = operation.regions
    carried = [_loop_variable(lowering, lowering.value(slot)) for slot in operation.operands]
    head, body, done = (code.fresh(hint) for hint in ("while", "do", "done"))
    trips = code.stack_slot("i64")
    code.do(f"store i64 0, ptr {trips}")
    code.jump(head)
    code.start(head)
    trip = code.value(f"add i64 {code.value(f'load i64, ptr {trips}')}, 1")
    code.do(f"store i64 {trip}, ptr {trips}")
    code.request_bailout(code.value(f"icmp sgt i64 {trip}, {MOST_TRIPS}"))
    code.bail_if_requested(lowering.names.bail)
    current = [variable.value(lowering) for variable in carried]
    _bind(lowering, before.entry.arguments, current)
    condition, *forwarded = _lower_single_block(lowering, before)
    if not isinstance(condition, Tile):
        raise CannotExecute("a pointer as a condition")
    vote = condition.lanes_at(lowering.scope(), ())
    code.branch(vote.name, body, done)
    code.start(body)
    _bind(lowering, after.entry.arguments, forwarded)
    _advance(lowering, carried, [None] * len(carried), _lower_single_block(lowering, after))  # type: ignore[list-item]
    code.jump(head)
    code.start(done)
    return forwarded


def _refuse_polling(regions: Sequence[TtirRegion]) -> None:
    for region in regions:
        for inner in region.all_operations():
            if inner.name.startswith("tt.atomic") or inner.attributes.get("isVolatile") or inner.name == "tt.call":
                raise CannotExecute("a loop that may wait for another program")


# --- branches and calls ---


def lower_function_body(lowering: Lowering, region: TtirRegion) -> list[Value]:
    """Lower a function's body; returns the operands of its `tt.return`."""
    if len(region.blocks) == 1:
        return lowering.lower_block(region.entry)
    order = _topological(region)
    code = lowering.code
    labels = {label: code.fresh("block") for label in order}
    blocks = {block.label: block for block in region.blocks}
    done = code.fresh("returned")
    block_arguments: dict[str, list[_Phi]] = {}
    ends: list[_Phi] | None = None
    code.jump(labels[region.entry.label])
    for label in order:
        block = blocks[label]
        code.start(labels[label])
        if label in block_arguments:
            _bind(lowering, block.arguments, [variable.value(lowering) for variable in block_arguments[label]])
        values = lowering.lower_block(block)
        last = block.operations[-1]
        if last.name not in {"cf.br", "cf.cond_br"}:
            ends = ends if ends is not None else [_Phi.like(lowering, value) for value in values]
            for end, value in zip(ends, values, strict=True):
                end.set(lowering, value)
            code.jump(done)
            continue
        _set_block_arguments(lowering, last, block_arguments)
        targets = [labels[successor.block] for successor in last.successors]
        if last.name == "cf.br":
            code.jump(targets[0])
        else:
            code.branch(lowering.scalar(last.operands[0]).name, *targets)
    code.start(done)
    return [end.value(lowering) for end in ends or ()]


def _set_block_arguments(lowering: Lowering, branch: Operation, block_arguments: dict[str, list[_Phi]]) -> None:
    """Set the block arguments of all targets before the branch; the target not taken ignores them."""
    for successor in branch.successors:
        values = [lowering.value(slot) for slot in successor.arguments]
        if not values:
            continue
        phis = block_arguments.setdefault(successor.block, [])
        if not phis:
            phis.extend(_Phi.like(lowering, value) for value in values)
        if sum(other.block == successor.block for other in branch.successors) > 1:
            raise CannotExecute("a branch whose ways are one block in native code")
        for phi, value in zip(phis, values, strict=True):
            phi.set(lowering, value)


def _topological(region: TtirRegion) -> list[str]:
    """The blocks' labels in topological order.

    Raises:
        CannotExecute: there is a back edge: such a loop may wait for another program.
    """
    blocks = {block.label: block for block in region.blocks}
    order: list[str] = []
    on_path: set[str] = set()

    def visit(label: str) -> None:
        if label in on_path:
            raise CannotExecute("a loop of branches in native code")
        if label in order:
            return
        on_path.add(label)
        for operation in blocks[label].operations[-1:]:
            for successor in operation.successors:
                visit(successor.block)
        on_path.discard(label)
        order.append(label)

    visit(region.entry.label)
    return order[::-1]


def call(lowering: Lowering, operation: Operation) -> list[Value]:
    """`tt.call`: inlines the function's body."""
    callee = lowering.module.functions.get(str(operation.attributes["callee"]))
    if callee is None or lowering.depth >= DEEPEST_CALL:
        raise CannotExecute(f"a call of {operation.attributes['callee']} in native code")
    arguments = [lowering.value(slot) for slot in operation.operands]
    with lowering.function_scope(callee.body):
        _bind(lowering, [parameter.slot for parameter in callee.parameters], arguments)
        return lower_function_body(lowering, callee.body)


HANDLERS: Mapping[str, Lower] = {
    "scf.for": for_loop,
    "scf.if": if_else,
    "scf.while": while_loop,
    "tt.call": call,
}
