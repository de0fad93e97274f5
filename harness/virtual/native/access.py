"""Loads and stores of a tile, each lane checked before memory is touched.

A lane may go on where it lies in what its argument covers, where no other program has touched its cell in a way that
matters, and where what it reads was written once.  Any other lane is a doubt: the code gives the launch up after
the access, and memory is put back by the caller.

A cell of the shadow is an i32: 0 untouched, p read by program number p alone, `MANY` read by several, -p stored to by
program p and touched by no other.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import CannotExecute
from harness.virtual.native import calling_convention
from harness.virtual.native.calling_convention import Word
from harness.virtual.native.lane_values import (
    BITS,
    LaneValues,
    any_of,
    as_vector,
    count_of,
    of,
    register,
    splat,
    storage,
    suffix,
)
from harness.virtual.native.lowering import Lower, Lowering
from harness.virtual.native.rounding import FLOATS, decoded, encoded
from harness.virtual.native.tiles import Index, Pointer, Scope, Tile, new_buffer
from harness.virtual.ttir.ir import Operation

MANY = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class CheckedRow:
    """Some neighbouring lanes of one access, checked against what the argument covers."""

    argument: int
    width: int
    active: str
    """The mask of lanes that lie inside and are not masked off."""
    index: str
    """Their element numbers as a vector."""
    first: str | None
    """The first's element number, where they are neighbours in memory too."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """An access as the operation names it."""

    pointer: Pointer
    mask: Tile | None
    counter: str | None
    """The slot that counts lanes that are left undefined, where any may be."""


def load(lowering: Lowering, operation: Operation) -> Tile:
    """`tt.load`: always into a buffer, at its place in the program."""
    pointer, mask = _asked(lowering, operation, 1)
    given = len(operation.operands) > 2
    other = lowering.tile(operation.operands[2]) if given else None
    kind = operation.result_types[0]
    if kind.element == "ptr":
        raise CannotExecute("pointers in memory")
    element, carried = pointer.element, register(pointer.element)
    code = lowering.code
    site = lowering.site(operation, pointer.argument)
    counter = None
    if mask is not None and other is None:
        counter = code.slot("i64")
        code.do(f"store i64 0, ptr {counter}")
    asked = _Asked(pointer, mask, counter)
    undefined = _undefined(lowering, carried)
    result = new_buffer(lowering.arena, kind.shape, kind.element)

    def body(index: Index) -> None:
        scope = Scope(code)
        fallback = (
            scope.at(other, index if other.shape else ()) if other is not None else LaneValues(carried, undefined)
        )
        row = _row(lowering, scope, asked, index)
        base = lowering.names.pointers[pointer.argument]
        raw = _read(lowering, row, base[Word.BASE], storage(element))
        _note_early(lowering, row, raw, storage(element), site)
        if pointer.argument in lowering.target.tracked:
            _note_load(lowering, row)
        value = decoded(code, raw, element, row.width)
        if mask is not None:
            rest = as_vector(code, fallback, row.width)
            whole = of(carried, row.width)
            # lanes that are masked off hold `other`; those that stray are a doubt already
            value = code.value(f"select {of('i1', row.width)} {row.active}, {whole} {value}, {whole} {rest}")
        if all(at.uniform for at in index):
            value = code.value(f"extractelement {of(carried, 1)} {value}, i64 0")
            result.write(code, index, LaneValues(carried, value))
        else:
            result.write(code, index, LaneValues(carried, value, row.width))

    lowering.nest(kind.shape, body)
    if counter is not None:
        _count(lowering, counter, site)
    code.leave_in_doubt(lowering.names.bail)
    return result.tile()


def store(lowering: Lowering, operation: Operation) -> None:
    """`tt.store`."""
    pointer, mask = _asked(lowering, operation, 2)
    value = lowering.tile(operation.operands[1])
    asked = _Asked(pointer, mask, None)
    code = lowering.code
    element = pointer.element

    def body(index: Index) -> None:
        scope = Scope(code)
        lanes = scope.at(value, index if value.shape else ())
        row = _row(lowering, scope, asked, index)
        given = encoded(code, as_vector(code, lanes, row.width), element, row.width)
        if pointer.argument in lowering.target.tracked:
            _note_store(lowering, row)
        _write(lowering, row, lowering.names.pointers[pointer.argument][Word.BASE], storage(element), given)

    lowering.nest(operation.operand_types[1].shape, body)
    code.leave_in_doubt(lowering.names.bail)


def _asked(lowering: Lowering, operation: Operation, at: int) -> tuple[Pointer, Tile | None]:
    pointer = lowering.pointer(operation.operands[0])
    return pointer, lowering.tile(operation.operands[at]) if len(operation.operands) > at else None


def _row(lowering: Lowering, scope: Scope, access: _Asked, index: Index) -> CheckedRow:
    """The lanes at an index of a tile; what strays is a doubt."""
    code = scope.code
    pointer, mask, counter = access.pointer, access.mask, access.counter
    width = max((at.width for at in index), default=0) or 1
    where = scope.at(pointer.index, index if pointer.index.shape else ())
    asked = "splat (i1 true)"
    if mask is not None:
        votes = scope.at(mask, index if mask.shape else ())
        asked = as_vector(code, votes, width)
    numbers, flags = of("i64", width), of("i1", width)
    elements = as_vector(code, where, width)
    words = lowering.names.pointers[pointer.argument]
    inside = code.value(f"icmp ult {numbers} {elements}, {splat(code, 'i64', words[Word.EXTENT], width)}")
    active = code.value(f"and {flags} {asked}, {inside}")
    code.doubt(any_of(code, code.value(f"xor {flags} {asked}, {active}"), width))
    if counter is not None:
        held = code.value(f"load i64, ptr {counter}")
        off = code.value(f"sub i64 {width}, {count_of(code, asked, width)}")
        code.do(f"store i64 {code.value(f'add i64 {held}, {off}')}, ptr {counter}")
    first = where.name if where.step == 1 else None
    row = CheckedRow(pointer.argument, width, active, elements, first)
    _check_covered(lowering, row, words[Word.COVERED])
    return row


def _check_covered(lowering: Lowering, row: CheckedRow, covered: str) -> None:
    code = lowering.code
    with code.when(code.value(f"icmp ne i64 {covered}, 0")):
        held = _read(lowering, row, covered, "i8")
        gap = code.value(f"icmp eq {of('i8', row.width)} {held}, splat (i8 0)")
        code.doubt(any_of(code, code.value(f"and {of('i1', row.width)} {gap}, {row.active}"), row.width))


def _note_early(lowering: Lowering, row: CheckedRow, raw: str, kind: str, site: int) -> None:
    """Record the lanes that read fresh memory which still holds its pattern."""
    if BITS[kind] == 8:
        return
    code, whole, flags = lowering.code, f"i{BITS[kind]}", of("i1", row.width)
    words = lowering.names.pointers[row.argument]
    bits = raw
    if kind in FLOATS or kind == "half":
        bits = code.value(f"bitcast {of(kind, row.width)} {raw} to {of(whole, row.width)}")
    pattern = words[Word.PATTERN]
    if whole != "i64":
        pattern = code.value(f"trunc i64 {pattern} to {whole}")
    same = code.value(f"icmp eq {of(whole, row.width)} {bits}, {splat(code, whole, pattern, row.width)}")
    early = code.value(f"and {flags} {same}, {row.active}")
    fresh = code.value(f"icmp ne i64 {words[Word.FRESH]}, 0")
    with code.when(code.value(f"and i1 {any_of(code, early, row.width)}, {fresh}")):
        _record(lowering, row, early, site)


def _record(lowering: Lowering, row: CheckedRow, lanes: str, site: int) -> None:
    """Append the lanes' elements, with program and site, to the records; a doubt where they are full."""
    code, width, records = lowering.code, row.width, lowering.names.records
    numbers = of("i64", width)
    kept = code.value(f"load i64, ptr {records}")
    full = code.value(f"icmp sgt i64 {kept}, {calling_convention.RECORDS}")
    code.doubt(full)
    at = code.value(f"select i1 {full}, i64 0, i64 {kept}")
    columns = [
        code.value(f"getelementptr i64, ptr {records}, i64 {code.value(f'add i64 {at}, {first}')}")
        for first in calling_convention.COLUMNS
    ]
    masked = f"llvm.masked.compressstore.{suffix('i64', width)}"
    code.call("void", masked, (numbers, row.index), ("ptr", columns[0]), (of("i1", width), lanes))
    for column, name in ((columns[1], lowering.names.program), (columns[2], str(site))):
        code.do(f"store {numbers} {splat(code, 'i64', name, width)}, ptr {column}, align 8")
    count = count_of(code, lanes, width)
    code.do(f"store i64 {code.value(f'add i64 {at}, {count}')}, ptr {records}")


def _note_load(lowering: Lowering, row: CheckedRow) -> None:
    code, cells, flags = lowering.code, of("i32", row.width), of("i1", row.width)
    shadow = lowering.names.pointers[row.argument][Word.SHADOW]
    held = _read(lowering, row, shadow, "i32")
    number = splat(code, "i32", lowering.names.number, row.width)
    own = splat(code, "i32", code.value(f"sub i32 0, {lowering.names.number}"), row.width)
    stored = code.value(f"icmp slt {cells} {held}, splat (i32 0)")
    others = code.value(f"and {flags} {stored}, {code.value(f'icmp ne {cells} {held}, {own}')}")
    code.doubt(any_of(code, code.value(f"and {flags} {others}, {row.active}"), row.width))
    untouched = code.value(f"icmp eq {cells} {held}, splat (i32 0)")
    mine = code.value(f"icmp eq {cells} {held}, {number}")
    alone = code.value(f"or {flags} {untouched}, {mine}")
    readers = code.value(f"select {flags} {alone}, {cells} {number}, {cells} splat (i32 {MANY})")
    _write(lowering, row, shadow, "i32", code.value(f"select {flags} {stored}, {cells} {held}, {cells} {readers}"))


def _note_store(lowering: Lowering, row: CheckedRow) -> None:
    code, cells, flags = lowering.code, of("i32", row.width), of("i1", row.width)
    shadow = lowering.names.pointers[row.argument][Word.SHADOW]
    held = _read(lowering, row, shadow, "i32")
    own = splat(code, "i32", code.value(f"sub i32 0, {lowering.names.number}"), row.width)
    size = code.call(cells, f"llvm.abs.{suffix('i32', row.width)}", (cells, held), ("i1", "false"))
    number = splat(code, "i32", lowering.names.number, row.width)
    touched = code.value(f"icmp ne {cells} {held}, splat (i32 0)")
    others = code.value(f"and {flags} {touched}, {code.value(f'icmp ne {cells} {size}, {number}')}")
    code.doubt(any_of(code, code.value(f"and {flags} {others}, {row.active}"), row.width))
    _write(lowering, row, shadow, "i32", own)


def _read(lowering: Lowering, row: CheckedRow, base: str, kind: str) -> str:
    """The active lanes' elements of an array; the others are zero."""
    code, whole, flags = lowering.code, of(kind, row.width), of("i1", row.width)
    begin = code.value(f"inttoptr i64 {base} to ptr")
    align = str(max(1, BITS[kind] // 8))
    operands = (("i32", align), (flags, row.active), (whole, "zeroinitializer"))
    if row.first is not None:
        where = code.value(f"getelementptr {kind}, ptr {begin}, i64 {row.first}")
        return code.call(whole, f"llvm.masked.load.{suffix(kind, row.width)}.p0", ("ptr", where), *operands)
    pointers = of("ptr", row.width)
    where = code.value(f"getelementptr {kind}, ptr {begin}, {of('i64', row.width)} {row.index}")
    name = f"llvm.masked.gather.{suffix(kind, row.width)}.{suffix('ptr', row.width)}"
    return code.call(whole, name, (pointers, where), *operands)


def _write(lowering: Lowering, row: CheckedRow, base: str, kind: str, value: str) -> None:
    code, whole, flags = lowering.code, of(kind, row.width), of("i1", row.width)
    begin = code.value(f"inttoptr i64 {base} to ptr")
    operands = (("i32", str(max(1, BITS[kind] // 8))), (flags, row.active))
    if row.first is not None:
        where = code.value(f"getelementptr {kind}, ptr {begin}, i64 {row.first}")
        code.call("void", f"llvm.masked.store.{suffix(kind, row.width)}.p0", (whole, value), ("ptr", where), *operands)
        return
    pointers = of("ptr", row.width)
    where = code.value(f"getelementptr {kind}, ptr {begin}, {of('i64', row.width)} {row.index}")
    name = f"llvm.masked.scatter.{suffix(kind, row.width)}.{suffix('ptr', row.width)}"
    code.call("void", name, (whole, value), (pointers, where), *operands)


def _undefined(lowering: Lowering, kind: str) -> str:
    """What undefined lanes hold in this case."""
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


def _count(lowering: Lowering, counter: str, site: int) -> None:
    """Add a load's undefined lanes to its counter."""
    code = lowering.code
    where = code.value(f"getelementptr i64, ptr {lowering.names.counters}, i64 {site}")
    held = code.value(f"load i64, ptr {where}")
    mine = code.value(f"load i64, ptr {counter}")
    code.do(f"store i64 {code.value(f'add i64 {held}, {mine}')}, ptr {where}")


HANDLERS: Mapping[str, Lower] = {"tt.load": load, "tt.store": store}
