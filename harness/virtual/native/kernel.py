"""A whole kernel as one LLVM function that runs a range of programs, one after the other."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.virtual.native import access, blocks, calling_convention, control, products, reductions
from harness.virtual.native.calling_convention import ParameterSlot, Word
from harness.virtual.native.lane_values import LaneValues, register
from harness.virtual.native.lowering import Lower, Lowering, PreparedNames, ReportedLoad, Target
from harness.virtual.native.rounding import resized
from harness.virtual.native.tiles import Pointer
from harness.virtual.ttir.ir import Module, Type

SYMBOL = "harness_launch"
SIGNATURE = f"i64 @{SYMBOL}(ptr %table, i64 %first, i64 %last)"
"""Runs the programs from `first` below `last`; returns 0, or 1 where the launch is left to the machine."""

HANDLERS: Mapping[str, Lower] = {
    **blocks.HANDLERS,
    **access.HANDLERS,
    **reductions.HANDLERS,
    **products.HANDLERS,
    **control.HANDLERS,
}


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel's LLVM IR and what its caller provides."""

    text: str
    arena_bytes: int
    sites: tuple[ReportedLoad, ...]
    """The loads, in the order of their counters."""


def lower(module: Module, target: Target) -> Lowered:
    """The kernel of a module.

    Raises:
        CannotExecute: native code does not know something in it.
    """
    lowering = Lowering(module, target, HANDLERS)
    code, kernel = lowering.code, module.kernel
    bail = code.fresh("bail")
    words = {at: _word(lowering, at) for at in range(calling_convention.HEADER)}
    arena = code.value(f"inttoptr i64 {words[3]} to ptr")
    code.do(f"%arena = getelementptr i8, ptr {arena}, i64 0")
    pointers: dict[int, tuple[str, ...]] = {}
    with lowering.inside(kernel.body):
        for parameter, entry in zip(kernel.parameters, calling_convention.entries(kernel), strict=True):
            if entry.argument is None:
                number = _number(lowering, parameter.type, entry)
                lowering.values[entry.slot] = lowering.known(number, parameter.type.element)
            else:
                assert parameter.type.pointee is not None
                pointers[entry.argument] = tuple(_word(lowering, entry.first_word + at) for at in Word)
                first = lowering.known(LaneValues("i64", "0"), "ptr")
                lowering.values[entry.slot] = Pointer(entry.argument, parameter.type.pointee.element, first)
        counters, records = (code.value(f"inttoptr i64 {words[at]} to ptr") for at in (4, 6))
        with code.loop(code.value("sub i64 %last, %first")) as trip:
            program = code.value(f"add i64 %first, {trip}")
            number = code.value(f"trunc i64 {code.value(f'add i64 {program}, 1')} to i32")
            grid = (words[0], words[1], words[2])
            lowering.names = PreparedNames(program, number, grid, counters, words[5], records, pointers, bail)
            control.body_of(lowering, kernel.body)
            code.leave_in_doubt(bail)
    code.do("ret i64 0")
    code.start(bail)
    code.do("ret i64 1")
    return Lowered(code.text(SIGNATURE), lowering.arena.size_bytes, tuple(lowering.sites))


def _word(lowering: Lowering, at: int) -> str:
    where = lowering.code.value(f"getelementptr i64, ptr %table, i64 {at}")
    return lowering.code.value(f"load i64, ptr {where}")


def _number(lowering: Lowering, kind: Type, entry: ParameterSlot) -> LaneValues:
    """A number of the table in its own type."""
    wanted = register(kind.element)
    word = _word(lowering, entry.first_word)
    if wanted in {"float", "double"}:
        return resized(
            lowering.code, LaneValues("double", lowering.code.value(f"bitcast i64 {word} to double")), wanted
        )
    return resized(lowering.code, LaneValues("i64", word), wanted)
