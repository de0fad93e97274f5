"""Lowers a whole kernel to one LLVM function that runs a range of programs, one after the other."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.engines.ttir.ir import Module, Type
from harness.engines.virtual.native import access, blocks, calling_convention, control, products, reductions
from harness.engines.virtual.native.calling_convention import ParameterSlot, Word
from harness.engines.virtual.native.lane_values import LaneValues, register
from harness.engines.virtual.native.lowering import Lower, Lowering, PreparedNames, ReportedLoad, Target
from harness.engines.virtual.native.product_code import ProductBlock
from harness.engines.virtual.native.rounding import resized
from harness.engines.virtual.native.tiles import Pointer

SYMBOL = "harness_launch"
SIGNATURE = f"i64 @{SYMBOL}(ptr %table, i64 %first, i64 %last)"
"""Runs the programs from `first` up to but excluding `last`; returns 0, or 1 after a bailout."""

HANDLERS: Mapping[str, Lower] = {
    **blocks.HANDLERS,
    **access.HANDLERS,
    **reductions.HANDLERS,
    **products.HANDLERS,
    **control.HANDLERS,
}


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel's LLVM IR, the arena size that its caller provides, and its loads."""

    text: str
    arena_bytes: int
    sites: tuple[ReportedLoad, ...]
    """The loads, in the order of their counters."""
    products: tuple[ProductBlock, ...]
    """The shared code that it calls."""


def lower(module: Module, target: Target) -> Lowered:
    """Lower the kernel of a module.

    Raises:
        CannotExecute: native code does not support something in it.
    """
    lowering = Lowering(module, target, HANDLERS)
    code, kernel = lowering.code, module.kernel
    bail = code.fresh("bail")
    words = {at: _word(lowering, at) for at in range(calling_convention.HEADER_WORDS)}
    arena = code.value(f"inttoptr i64 {words[3]} to ptr")
    code.do(f"%arena = getelementptr i8, ptr {arena}, i64 0")
    pointers: dict[int, tuple[str, ...]] = {}
    with lowering.function_scope(kernel.body):
        for parameter, entry in zip(kernel.parameters, calling_convention.parameter_slots(kernel), strict=True):
            if entry.argument is None:
                number = _number_parameter(lowering, parameter.type, entry)
                lowering.values[entry.slot] = lowering.scalar_tile(number, parameter.type.element)
            else:
                assert parameter.type.pointee is not None
                pointers[entry.argument] = tuple(_word(lowering, entry.first_word + at) for at in Word)
                first = lowering.scalar_tile(LaneValues("i64", "0"), "ptr")
                lowering.values[entry.slot] = Pointer(entry.argument, parameter.type.pointee.element, first)
        counters, records, entered = (code.value(f"inttoptr i64 {words[at]} to ptr") for at in (4, 6, 7))
        with code.loop(code.value("sub i64 %last, %first")) as trip:
            program = code.value(f"add i64 %first, {trip}")
            number = code.value(f"trunc i64 {code.value(f'add i64 {program}, 1')} to i32")
            grid = (words[0], words[1], words[2])
            lowering.names = PreparedNames(program, number, grid, counters, words[5], records, entered, pointers, bail)
            control.lower_function_body(lowering, kernel.body)
            code.bail_if_requested(bail)
    code.do("ret i64 0")
    code.start(bail)
    code.do("ret i64 1")
    products = tuple(sorted(lowering.products))
    return Lowered(code.text(SIGNATURE), lowering.arena.size_bytes, tuple(lowering.sites), products)


def _word(lowering: Lowering, at: int) -> str:
    address = lowering.code.value(f"getelementptr i64, ptr %table, i64 {at}")
    return lowering.code.value(f"load i64, ptr {address}")


def _number_parameter(lowering: Lowering, kind: Type, entry: ParameterSlot) -> LaneValues:
    """Load a number from the table and convert it to its own type."""
    kind_wanted = register(kind.element)
    word = _word(lowering, entry.first_word)
    if kind_wanted in {"float", "double"}:
        return resized(
            lowering.code, LaneValues("double", lowering.code.value(f"bitcast i64 {word} to double")), kind_wanted
        )
    return resized(lowering.code, LaneValues("i64", word), kind_wanted)
