"""Loads and stores of a tile; every lane is checked before memory is touched.

A lane passes if it lies inside its argument and no other program has made a conflicting access to its cell.  Any
other lane requests a bailout: after the access the code returns, and the caller restores memory.  Reads of fresh memory
do not bail out; they are recorded.

A cell of the shadow is an i32.  0: untouched.  p: read only by the program with number p.  `SEVERAL_READERS`: read by
several programs.  -p: stored to by program p, and touched by no other.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.engines.ttir.ir import Operation
from harness.engines.ttir.wide_accesses import Vector
from harness.engines.virtual.native import calling_convention
from harness.engines.virtual.native.calling_convention import Word
from harness.engines.virtual.native.lane_values import (
    BITS,
    LaneValues,
    any_set,
    as_vector,
    count_set,
    intrinsic_suffix,
    register,
    splat,
    storage,
    vector_type,
)
from harness.engines.virtual.native.llvm_text import Assembly
from harness.engines.virtual.native.lowering import Lower, Lowering
from harness.engines.virtual.native.rounding import FLOATS, decoded, encoded
from harness.engines.virtual.native.tiles import Index, Pointer, Scope, Tile, new_buffer
from harness.errors import CannotExecute

SEVERAL_READERS = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class CheckedRow:
    """Neighbouring lanes of one access, after the bounds check."""

    argument: int
    width: int
    active: str
    """The mask of lanes that lie inside the argument and are not masked off."""
    index: str
    """The lanes' element numbers, as a vector."""
    first: str | None
    """The first lane's element number if the lanes are neighbours in memory too; else None."""


@dataclass(frozen=True, slots=True)
class _Access:
    """The operands of a load or store."""

    pointer: Pointer
    mask: Tile | None
    counter: str | None
    """The stack slot that counts undefined lanes; None if there can be none."""
    vector: Vector | None = None
    """The lanes that a compiler hint joins; None if no hint makes the access wider."""


def load(lowering: Lowering, operation: Operation) -> Tile:
    """`tt.load`: always into a buffer, since a lazy load could be moved past a store."""
    pointer, mask = _pointer_and_mask(lowering, operation, 1)
    has_other = len(operation.operands) > 2
    other = lowering.tile(operation.operands[2]) if has_other else None
    kind = operation.result_types[0]
    if kind.element == "ptr":
        raise CannotExecute("pointers in memory")
    element, carried = pointer.element, register(pointer.element)
    code = lowering.code
    site = lowering.site(operation, pointer.argument)
    counter = None
    if mask is not None and other is None:
        counter = code.stack_slot("i64")
        code.do(f"store i64 0, ptr {counter}")
    access = _Access(pointer, mask, counter, lowering.vector(operation))
    undefined = _undefined_value(lowering, carried)
    result = new_buffer(lowering.arena, kind.shape, kind.element)

    def body(index: Index) -> None:
        scope = Scope(code)
        fallback = (
            scope.at(other, index if other.shape else ()) if other is not None else LaneValues(carried, undefined)
        )
        row = _checked_row(lowering, scope, access, index)
        base = lowering.names.pointers[pointer.argument]
        raw = _read(lowering, row, base[Word.BASE], storage(element))
        _record_uninitialised(lowering, row, raw, storage(element), site)
        if pointer.argument in lowering.target.tracked:
            _track_load(lowering, row)
        value = decoded(code, raw, element, row.width)
        if mask is not None:
            value = _with_fallback(code, row, value, fallback)
        if all(at.uniform for at in index):
            value = code.value(f"extractelement {vector_type(carried, 1)} {value}, i64 0")
            result.write(code, index, LaneValues(carried, value))
        else:
            result.write(code, index, LaneValues(carried, value, row.width))

    lowering.loop_over(kind.shape, body)
    if counter is not None:
        _add_to_counter(lowering, counter, site)
    code.bail_if_requested(lowering.names.bail)
    return result.tile()


def _with_fallback(code: Assembly, row: CheckedRow, value: str, fallback: LaneValues) -> str:
    """Replace masked-off lanes by the fallback.  Lanes out of bounds have requested a bailout already."""
    rest = as_vector(code, fallback, row.width)
    flags, vector = vector_type("i1", row.width), vector_type(fallback.kind, row.width)
    return code.value(f"select {flags} {row.active}, {vector} {value}, {vector} {rest}")


def store(lowering: Lowering, operation: Operation) -> None:
    """`tt.store`."""
    pointer, mask = _pointer_and_mask(lowering, operation, 2)
    value = lowering.tile(operation.operands[1])
    access = _Access(pointer, mask, None, lowering.vector(operation))
    code = lowering.code
    element = pointer.element

    def body(index: Index) -> None:
        scope = Scope(code)
        lanes = scope.at(value, index if value.shape else ())
        row = _checked_row(lowering, scope, access, index)
        raw = encoded(code, as_vector(code, lanes, row.width), element, row.width)
        if pointer.argument in lowering.target.tracked:
            _track_store(lowering, row)
        _write(lowering, row, lowering.names.pointers[pointer.argument][Word.BASE], storage(element), raw)

    lowering.loop_over(operation.operand_types[1].shape, body)
    code.bail_if_requested(lowering.names.bail)


def _pointer_and_mask(lowering: Lowering, operation: Operation, at: int) -> tuple[Pointer, Tile | None]:
    pointer = lowering.pointer(operation.operands[0])
    return pointer, lowering.tile(operation.operands[at]) if len(operation.operands) > at else None


def _checked_row(lowering: Lowering, scope: Scope, access: _Access, index: Index) -> CheckedRow:
    """Check the lanes at an index of a tile; lanes out of bounds request a bailout."""
    code = scope.code
    pointer, mask, counter = access.pointer, access.mask, access.counter
    width = max((at.width for at in index), default=0) or 1
    element = scope.at(pointer.index, index if pointer.index.shape else ())
    requested = "splat (i1 true)"
    if mask is not None:
        votes = scope.at(mask, index if mask.shape else ())
        requested = as_vector(code, votes, width)
    numbers, flags = vector_type("i64", width), vector_type("i1", width)
    elements = as_vector(code, element, width)
    words = lowering.names.pointers[pointer.argument]
    inside = code.value(f"icmp ult {numbers} {elements}, {splat(code, 'i64', words[Word.EXTENT], width)}")
    active = code.value(f"and {flags} {requested}, {inside}")
    code.request_bailout(any_set(code, code.value(f"xor {flags} {requested}, {active}"), width))
    if counter is not None:
        held = code.value(f"load i64, ptr {counter}")
        inactive = code.value(f"sub i64 {width}, {count_set(code, requested, width)}")
        code.do(f"store i64 {code.value(f'add i64 {held}, {inactive}')}, ptr {counter}")
    first = element.name if element.step == 1 else None
    row = CheckedRow(pointer.argument, width, active, elements, first)
    _check_covered(lowering, row, words[Word.COVERED])
    if access.vector is not None:
        _check_vector(scope, access, access.vector, index, (requested, elements, words[Word.BASE]))
    return row


def _check_vector(scope: Scope, access: _Access, vector: Vector, index: Index, row: tuple[str, str, str]) -> None:
    """Request a bailout for lanes that cannot be accessed together with the first lane of their vector."""
    code, (requested, elements, base) = scope.code, row
    width = max((at.width for at in index), default=0) or 1
    numbers, flags = vector_type("i64", width), vector_type("i1", width)
    own = as_vector(code, index[vector.axis], width)
    first = code.value(f"and {numbers} {own}, splat (i64 {-vector.lanes})")
    leaders = list(index)
    leaders[vector.axis] = _position_of_leader(code, index[vector.axis], vector.lanes, first)
    leading = tuple(leaders)
    pointer, mask = access.pointer, access.mask
    leader = as_vector(code, scope.at(pointer.index, leading if pointer.index.shape else ()), width)
    distance = code.value(f"sub {numbers} {elements}, {leader}")
    wanted = code.value(f"sub {numbers} {own}, {first}")
    broken = code.value(f"icmp ne {numbers} {distance}, {wanted}")
    size = max(1, BITS[storage(pointer.element)] // 8)
    byte = code.value(f"mul {numbers} {leader}, splat (i64 {size})")
    byte = code.value(f"add {numbers} {byte}, {splat(code, 'i64', base, width)}")
    beyond = code.value(f"and {numbers} {byte}, splat (i64 {vector.lanes * size - 1})")
    misaligned = code.value(f"icmp ne {numbers} {beyond}, zeroinitializer")
    broken = code.value(f"or {flags} {broken}, {misaligned}")
    broken = code.value(f"and {flags} {broken}, {requested}")
    if mask is not None:
        votes = as_vector(code, scope.at(mask, leading if mask.shape else ()), width)
        broken = code.value(f"or {flags} {broken}, {code.value(f'xor {flags} {votes}, {requested}')}")
    code.request_bailout(any_set(code, broken, width))


def _position_of_leader(code: Assembly, position: LaneValues, lanes: int, first: str) -> LaneValues:
    """Return the positions of the first lanes of vectors; one position if the lanes lie in one vector.

    A row of lanes begins at a multiple of its width, so it lies in one vector if that is as wide.
    """
    if position.uniform or position.width <= lanes:
        name = position.name
        return LaneValues("i64", code.value(f"and i64 {name}, {-lanes}") if name.startswith("%") else name)
    return LaneValues("i64", first, position.width)


def _check_covered(lowering: Lowering, row: CheckedRow, covered: str) -> None:
    """Request a bailout for lanes in gaps of a strided argument."""
    code = lowering.code
    with code.when(code.value(f"icmp ne i64 {covered}, 0")):
        held = _read(lowering, row, covered, "i8")
        gap = code.value(f"icmp eq {vector_type('i8', row.width)} {held}, splat (i8 0)")
        gap = code.value(f"and {vector_type('i1', row.width)} {gap}, {row.active}")
        code.request_bailout(any_set(code, gap, row.width))


def _record_uninitialised(lowering: Lowering, row: CheckedRow, raw: str, kind: str, site: int) -> None:
    """Record the lanes that read fresh memory which still holds its poison pattern."""
    if BITS[kind] == 8:  # memory of one-byte elements is never poisoned
        return
    code, integer, flags = lowering.code, f"i{BITS[kind]}", vector_type("i1", row.width)
    words = lowering.names.pointers[row.argument]
    bits = raw
    if kind in FLOATS or kind == "half":
        bits = code.value(f"bitcast {vector_type(kind, row.width)} {raw} to {vector_type(integer, row.width)}")
    pattern = words[Word.PATTERN]
    if integer != "i64":
        pattern = code.value(f"trunc i64 {pattern} to {integer}")
    same = code.value(f"icmp eq {vector_type(integer, row.width)} {bits}, {splat(code, integer, pattern, row.width)}")
    uninitialised = code.value(f"and {flags} {same}, {row.active}")
    is_fresh = code.value(f"icmp ne i64 {words[Word.FRESH]}, 0")
    with code.when(code.value(f"and i1 {any_set(code, uninitialised, row.width)}, {is_fresh}")):
        _append_records(lowering, row, uninitialised, site)


def _append_records(lowering: Lowering, row: CheckedRow, lanes: str, site: int) -> None:
    """Append the lanes' elements, with program and site, to the records; bail out if they are full."""
    code, width, records = lowering.code, row.width, lowering.names.records
    numbers = vector_type("i64", width)
    kept = code.value(f"load i64, ptr {records}")
    full = code.value(f"icmp sgt i64 {kept}, {calling_convention.MOST_RECORDS}")
    code.request_bailout(full)
    # The bailout happens after the access: until then, write somewhere harmless.
    at = code.value(f"select i1 {full}, i64 0, i64 {kept}")
    columns = [
        code.value(f"getelementptr i64, ptr {records}, i64 {code.value(f'add i64 {at}, {first}')}")
        for first in calling_convention.RECORD_COLUMNS
    ]
    masked = f"llvm.masked.compressstore.{intrinsic_suffix('i64', width)}"
    code.call("void", masked, (numbers, row.index), ("ptr", columns[0]), (vector_type("i1", width), lanes))
    for column, name in ((columns[1], lowering.names.program), (columns[2], str(site))):
        code.do(f"store {numbers} {splat(code, 'i64', name, width)}, ptr {column}, align 8")
    count = count_set(code, lanes, width)
    code.do(f"store i64 {code.value(f'add i64 {at}, {count}')}, ptr {records}")


def _track_load(lowering: Lowering, row: CheckedRow) -> None:
    """Mark cells as read; a cell that another program stored to requests a bailout."""
    code, cells, flags = lowering.code, vector_type("i32", row.width), vector_type("i1", row.width)
    shadow = lowering.names.pointers[row.argument][Word.SHADOW]
    held = _read(lowering, row, shadow, "i32")
    number = splat(code, "i32", lowering.names.number, row.width)
    own = splat(code, "i32", code.value(f"sub i32 0, {lowering.names.number}"), row.width)
    stored = code.value(f"icmp slt {cells} {held}, splat (i32 0)")
    by_others = code.value(f"and {flags} {stored}, {code.value(f'icmp ne {cells} {held}, {own}')}")
    code.request_bailout(any_set(code, code.value(f"and {flags} {by_others}, {row.active}"), row.width))
    untouched = code.value(f"icmp eq {cells} {held}, splat (i32 0)")
    own_reads = code.value(f"icmp eq {cells} {held}, {number}")
    is_only_reader = code.value(f"or {flags} {untouched}, {own_reads}")
    readers = code.value(f"select {flags} {is_only_reader}, {cells} {number}, {cells} splat (i32 {SEVERAL_READERS})")
    _write(lowering, row, shadow, "i32", code.value(f"select {flags} {stored}, {cells} {held}, {cells} {readers}"))


def _track_store(lowering: Lowering, row: CheckedRow) -> None:
    """Mark cells as stored to; a cell that another program touched requests a bailout."""
    code, cells, flags = lowering.code, vector_type("i32", row.width), vector_type("i1", row.width)
    shadow = lowering.names.pointers[row.argument][Word.SHADOW]
    held = _read(lowering, row, shadow, "i32")
    own = splat(code, "i32", code.value(f"sub i32 0, {lowering.names.number}"), row.width)
    size = code.call(cells, f"llvm.abs.{intrinsic_suffix('i32', row.width)}", (cells, held), ("i1", "false"))
    number = splat(code, "i32", lowering.names.number, row.width)
    touched = code.value(f"icmp ne {cells} {held}, splat (i32 0)")
    by_others = code.value(f"and {flags} {touched}, {code.value(f'icmp ne {cells} {size}, {number}')}")
    code.request_bailout(any_set(code, code.value(f"and {flags} {by_others}, {row.active}"), row.width))
    _write(lowering, row, shadow, "i32", own)


def _read(lowering: Lowering, row: CheckedRow, base: str, kind: str) -> str:
    """Load the active lanes' elements of the array at `base`; other lanes are zero."""
    code, vector, flags = lowering.code, vector_type(kind, row.width), vector_type("i1", row.width)
    begin = code.value(f"inttoptr i64 {base} to ptr")
    align = str(max(1, BITS[kind] // 8))
    operands = (("i32", align), (flags, row.active), (vector, "zeroinitializer"))
    if row.first is not None:
        address = code.value(f"getelementptr {kind}, ptr {begin}, i64 {row.first}")
        name = f"llvm.masked.load.{intrinsic_suffix(kind, row.width)}.p0"
        return code.call(vector, name, ("ptr", address), *operands)
    pointers = vector_type("ptr", row.width)
    address = code.value(f"getelementptr {kind}, ptr {begin}, {vector_type('i64', row.width)} {row.index}")
    name = f"llvm.masked.gather.{intrinsic_suffix(kind, row.width)}.{intrinsic_suffix('ptr', row.width)}"
    return code.call(vector, name, (pointers, address), *operands)


def _write(lowering: Lowering, row: CheckedRow, base: str, kind: str, value: str) -> None:
    code, vector, flags = lowering.code, vector_type(kind, row.width), vector_type("i1", row.width)
    begin = code.value(f"inttoptr i64 {base} to ptr")
    operands = (("i32", str(max(1, BITS[kind] // 8))), (flags, row.active))
    if row.first is not None:
        address = code.value(f"getelementptr {kind}, ptr {begin}, i64 {row.first}")
        name = f"llvm.masked.store.{intrinsic_suffix(kind, row.width)}.p0"
        code.call("void", name, (vector, value), ("ptr", address), *operands)
        return
    pointers = vector_type("ptr", row.width)
    address = code.value(f"getelementptr {kind}, ptr {begin}, {vector_type('i64', row.width)} {row.index}")
    name = f"llvm.masked.scatter.{intrinsic_suffix(kind, row.width)}.{intrinsic_suffix('ptr', row.width)}"
    code.call("void", name, (vector, value), (pointers, address), *operands)


def _undefined_value(lowering: Lowering, kind: str) -> str:
    """The value of undefined lanes in this case, in an LLVM type."""
    code, fill = lowering.code, lowering.names.fill
    match kind:
        case "i64":
            return fill
        case "i1":
            return code.value(f"icmp ne i64 {fill}, 0")
        case "float" | "double":
            return code.value(f"sitofp i64 {fill} to {kind}")
        case _:
            return code.value(f"trunc i64 {fill} to {kind}")


def _add_to_counter(lowering: Lowering, counter: str, site: int) -> None:
    """Add a load's count of undefined lanes to the launch's counter of its site."""
    code = lowering.code
    address = code.value(f"getelementptr i64, ptr {lowering.names.counters}, i64 {site}")
    total = code.value(f"load i64, ptr {address}")
    added = code.value(f"load i64, ptr {counter}")
    code.do(f"store i64 {code.value(f'add i64 {total}, {added}')}, ptr {address}")


HANDLERS: Mapping[str, Lower] = {"tt.load": load, "tt.store": store}
