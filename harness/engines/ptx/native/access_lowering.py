"""Lowers loads and stores: bounds and alignment are checked for a whole warp, and any doubt goes to the interpreter.

A place in the table of regions keeps, for each access to global memory, the region that it used last.
"""

from collections.abc import Callable, Iterator

from harness.engines.ptx.flow import results_of, sources_of
from harness.engines.ptx.lane_accesses import space_of
from harness.engines.ptx.memories import SHARED_BASE
from harness.engines.ptx.native import warp_code
from harness.engines.ptx.native.shadow_lowering import LOAD, STORE, shadow_function
from harness.engines.ptx.native.warp_code import NotLowered, WarpCode, splat, vector
from harness.engines.ptx.ptx_kernel import Address, Immediate, Operand, PtxInstruction, Register, Symbol, parts
from harness.engines.ptx.threads import WARP
from harness.engines.virtual.operations.ptx_instructions import width

REGION_FIELDS = 3
"""Of a region: its address, the number of addresses at which an access may begin, and the address of its bytes."""
_OTHER_FORMS = frozenset({"async", "bulk", "mmio"})


def lower_access(code: WarpCode, instruction: PtxInstruction) -> bool:
    """Write a load or a store; False for another instruction.

    Raises:
        NotLowered: it has a form that stays with the interpreter.
    """
    if instruction.root not in {"ld", "ldu", "st"}:
        return False
    if not _OTHER_FORMS.isdisjoint(instruction.words):
        raise NotLowered
    loads = instruction.root != "st"
    space = space_of(instruction)
    if space == "param":
        _load_parameter(code, instruction)
    elif space == "shared":
        _access_shared(code, instruction, loads=loads)
    elif space in {"global", "const"}:
        _access_global(code, instruction, loads=loads)
    else:
        raise NotLowered
    return True


def address(code: WarpCode, operand: Operand) -> str:
    """Return the addresses as i64."""
    assert isinstance(operand, Address)
    base, offset = operand.base, operand.offset
    if isinstance(base, Immediate):
        return splat("b64", base.value + offset)
    if isinstance(base, Symbol):
        return splat("b64", code.rows.address_of(base) + offset)
    if not isinstance(base, Register):
        raise NotLowered
    kind = "u32" if base.bits == 32 else "u64"
    value = code.read(base, kind)
    if offset:
        value = code.binary("add", kind, value, splat(kind, offset))
    return code.resized(value, kind, "u64")


def memory_kind(instruction: PtxInstruction) -> str:
    """Return the type of an element in memory."""
    kind = instruction.kind
    bits = 128 if kind == "b128" else width(kind)
    if bits not in {8, 16, 32, 64}:
        raise NotLowered
    return f"{'s' if kind.startswith('s') else 'b'}{bits}"


def aligned(code: WarpCode, addresses: str, size: int) -> str:
    """Return the lanes whose addresses are multiples of a size."""
    if size == 1:
        return splat("pred", 1)
    return code.compare("eq", "b64", code.binary("and", "b64", addresses, splat("b64", size - 1)), "zeroinitializer")


def for_active(code: WarpCode, fine: str) -> str:
    """Return an i1: True if all active lanes are fine."""
    if code.is_partial():
        idle = code.binary("xor", "pred", code.active(), splat("pred", 1))
        fine = code.binary("or", "pred", fine, idle)
    return code.all_of(fine)


def shared_places(code: WarpCode, addresses: str, size: int, fine: str) -> tuple[str, str]:
    """Return the lanes whose bytes lie in the CTA's shared memory, and the places there from the first CTA's."""
    first = code.binary("sub", "b64", addresses, splat("b64", SHARED_BASE))
    room = code.code.value(f"sub i64 {code.slot(warp_code.SHARED_BYTES)}, {size - 1}")
    room = code.code.call("i64", "llvm.smax.i64", ("i64", room), ("i64", "0"))
    inside = code.compare("ult", "b64", first, code.uniform(room))
    cta = code.code.value(f"udiv i64 {code.warp}, {code.slot(warp_code.CTA_WARPS)}")
    begin = code.code.value(f"mul i64 {cta}, {code.slot(warp_code.SHARED_STRIDE)}")
    places = code.binary("add", "b64", addresses, code.uniform(begin))
    return code.binary("and", "pred", inside, fine), places


def pointers(code: WarpCode, base: str, offsets: str) -> str:
    """Return the pointers of lanes from an address as i64."""
    pointer = code.pointer(base)
    return code.code.value(f"getelementptr i8, ptr {pointer}, {vector('b64')} {offsets}")


def gathered(code: WarpCode, at: str, kind: str, lanes: str) -> str:
    """Load the elements of some lanes."""
    bits = warp_code.bits_of(kind)
    raw = f"b{bits}"
    return code.code.call(
        vector(raw),
        f"llvm.masked.gather.v{WARP}i{bits}.v{WARP}p0",
        (f"<{WARP} x ptr> align {bits // 8}", at),
        (vector("pred"), lanes),
        (vector(raw), "zeroinitializer"),
    )


def scattered(code: WarpCode, at: str, kind: str, lanes: str, value: str) -> None:
    """Store; of lanes that store to one place, the last one wins."""
    bits = warp_code.bits_of(kind)
    raw = f"b{bits}"
    code.code.call(
        "void",
        f"llvm.masked.scatter.v{WARP}i{bits}.v{WARP}p0",
        (vector(raw), value),
        (f"<{WARP} x ptr> align {bits // 8}", at),
        (vector("pred"), lanes),
    )


def _each(instruction: PtxInstruction, *, loads: bool) -> Iterator[tuple[int, Operand]]:
    size = warp_code.bits_of(memory_kind(instruction)) // 8
    for number, part in enumerate(parts(instruction.operands[0 if loads else 1])):
        yield number * size, part


def _transfer(code: WarpCode, instruction: PtxInstruction, base: str, offsets: str, *, loads: bool) -> None:
    """Move the elements of a vector between registers and memory."""
    kind = memory_kind(instruction)
    size = warp_code.bits_of(kind) // 8
    first = pointers(code, base, offsets)
    for offset, part in _each(instruction, loads=loads):
        at = first if not offset else code.code.value(f"getelementptr i8, <{WARP} x ptr> {first}, i64 {offset}")
        if loads:
            code.write(part, gathered(code, at, kind, code.active()), kind)
        else:
            scattered(code, at, kind, code.active(), code.read(part, f"b{8 * size}"))


def _access_shared(code: WarpCode, instruction: PtxInstruction, *, loads: bool) -> None:
    kind = memory_kind(instruction)
    size = warp_code.bits_of(kind) // 8
    whole = size * len(list(_each(instruction, loads=loads)))
    addresses = address(code, instruction.operands[1 if loads else 0])
    fine, places = shared_places(code, addresses, whole, aligned(code, addresses, whole))
    if not loads:
        _read_all(code, instruction)
    sure = for_active(code, fine)
    if code.cell_bytes:
        sure = checked(code, sure, lambda: _seen(code, instruction, places, whole, loads=loads))
    with code.slow_unless(sure, sources_of(instruction), results_of(instruction)):
        _transfer(code, instruction, code.slot(warp_code.SHARED), places, loads=loads)
        if not loads:
            written = pointers(code, code.slot(warp_code.WRITTEN), places)
            for offset, _ in _each(instruction, loads=loads):
                at = code.code.value(f"getelementptr i8, <{WARP} x ptr> {written}, i64 {offset}")
                ones = splat(f"b{8 * size}", int.from_bytes(b"\1" * size, "little"))
                scattered(code, at, kind, code.active(), ones)


def checked(code: WarpCode, sure: str, check: Callable[[], str]) -> str:
    """Return an i1 that holds if `sure` does and a check, which is made only then."""
    ir = code.code
    result, more = ir.stack_slot("i1"), ir.fresh("more")
    ir.do(f"store i1 {sure}, ptr {result}")
    end = ir.fresh("checked")
    ir.branch(sure, more, end)
    ir.start(more)
    ir.do(f"store i1 {check()}, ptr {result}")
    ir.jump(end)
    ir.start(end)
    return ir.value(f"load i1, ptr {result}")


def _seen(code: WarpCode, instruction: PtxInstruction, places: str, whole: int, *, loads: bool) -> str:
    """Return an i1: True if the shadow finds nothing to report."""
    lanes = code.active()
    if loads:
        return shadowed(code, LOAD, places, (lanes, lanes), whole)
    # A store of equal bytes harms nobody.
    kind = memory_kind(instruction)
    size = warp_code.bits_of(kind) // 8
    raw, first, changed = f"b{8 * size}", pointers(code, code.slot(warp_code.SHARED), places), splat("pred", 0)
    for offset, part in _each(instruction, loads=False):
        at = code.code.value(f"getelementptr i8, <{WARP} x ptr> {first}, i64 {offset}")
        differs = code.compare("ne", raw, gathered(code, at, raw, lanes), code.read(part, raw))
        changed = code.binary("or", "pred", changed, differs)
    return shadowed(code, STORE, places, (lanes, changed), whole)


def _read_all(code: WarpCode, instruction: PtxInstruction) -> None:
    """Read a store's registers before the ways part, so that they are known after they meet."""
    for _, part in _each(instruction, loads=False):
        if isinstance(part, Register):
            code.read(part, f"b{part.bits}" if part.bits > 1 else "pred")


def shadowed(code: WarpCode, name: str, places: str, lanes: tuple[str, str], size: int) -> str:
    """Let the shadow of shared memory see an access; return an i1: False if the interpreter must look at it.

    Args:
        code: what is written.
        name: the kind of access, LOAD or STORE.
        places: where each lane begins.
        lanes: those that access memory, and those of them that change it.
        size: the bytes of a lane.
    """
    ir = code.code
    memory = code.scratch("places", WARP)
    ir.do(f"store {vector('b64')} {places}, ptr {memory}, align 64")
    bits = [ir.value(f"bitcast {vector('pred')} {each} to i{WARP}") for each in lanes]
    at = ir.value(f"getelementptr i64, ptr {code.pointer(code.slot(warp_code.SHADOW_NUMBERS))}, i64 {code.number}")
    number = ir.value(f"trunc i64 {ir.value(f'load i64, ptr {at}')} to i32")
    function = code.helper(*shadow_function(name, code.cell_bytes, max(1, size // code.cell_bytes)))
    return ir.value(
        f"call i1 @{function}(ptr %context, i64 {code.warp}, ptr {memory}, i32 {bits[0]}, i32 {bits[1]}, i32 {number})"
    )


def _access_global(code: WarpCode, instruction: PtxInstruction, *, loads: bool) -> None:
    size = warp_code.bits_of(memory_kind(instruction)) // 8
    whole = size * len(list(_each(instruction, loads=loads)))
    addresses = address(code, instruction.operands[1 if loads else 0])
    if not loads:
        _read_all(code, instruction)
    check = code.checkpoint()
    inside, offsets, content = in_region(code, addresses)
    fine = code.binary("and", "pred", inside, aligned(code, addresses, whole))
    with code.slow_unless(for_active(code, fine), sources_of(instruction), results_of(instruction), check):
        _transfer(code, instruction, content, offsets, loads=loads)


def in_region(code: WarpCode, addresses: str) -> tuple[str, str, str]:
    """Return the lanes in the region that the access used last, their offsets there, and the address of its bytes."""
    begin, count, content = _region(code)
    offsets = code.binary("sub", "b64", addresses, code.uniform(begin))
    return code.compare("ult", "b64", offsets, code.uniform(count)), offsets, content


def _region(code: WarpCode) -> tuple[str, str, str]:
    """Return the fields of the region that the access used last."""
    table = code.pointer(code.slot(warp_code.REGIONS))
    fields: list[str] = []
    for field in range(REGION_FIELDS):
        at = code.code.value(f"getelementptr i64, ptr {table}, i64 {code.number * REGION_FIELDS + field}")
        fields.append(code.code.value(f"load i64, ptr {at}, align 8"))
    return fields[0], fields[1], fields[2]


def _load_parameter(code: WarpCode, instruction: PtxInstruction) -> None:
    source = instruction.operands[1]
    assert isinstance(source, Address)
    if instruction.root == "st" or not isinstance(source.base, Symbol):
        raise NotLowered
    parameters = {parameter.name: parameter.offset for parameter in code.rows.kernel.parameters}
    if source.base.name not in parameters:
        raise NotLowered
    first = parameters[source.base.name] + source.offset
    kind = memory_kind(instruction)
    base = code.pointer(code.slot(warp_code.PARAMETERS))
    for offset, part in _each(instruction, loads=True):
        at = code.code.value(f"getelementptr i8, ptr {base}, i64 {first + offset}")
        number = code.code.value(f"load i{warp_code.bits_of(kind)}, ptr {at}, align 1")
        code.write(part, code.uniform(number, f"b{warp_code.bits_of(kind)}"), kind)
