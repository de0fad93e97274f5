"""Values of neighbouring lanes of a tile in LLVM IR: uniform, a ramp, or a vector."""

from collections.abc import Callable
from dataclasses import dataclass

from harness.engines.virtual.native.llvm_text import Assembly
from harness.errors import CannotExecute

REGISTERS = {
    "i1": "i1",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "index": "i64",
    "ptr": "i64",
    "f16": "float",
    "bf16": "float",
    "f32": "float",
    "f64": "double",
}
"""The LLVM type in which an element is computed; a pointer is its element's number."""
STORAGE = {"i1": "i8", "f16": "half", "bf16": "i16"}
"""The LLVM type in memory, if it differs."""
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 32, "double": 64, "half": 16, "ptr": 64}


def register(element: str) -> str:
    """The LLVM type in which a TTIR element is computed.

    Raises:
        CannotExecute: native code does not support the element type.
    """
    if element not in REGISTERS:
        raise CannotExecute(f"element type {element} in native code")
    return REGISTERS[element]


def storage(element: str) -> str:
    """The LLVM type of a TTIR element in memory."""
    return STORAGE.get(element) or register(element)


def vector_type(kind: str, width: int) -> str:
    """A vector type, or the scalar type for width 0."""
    return f"<{width} x {kind}>" if width else kind


def intrinsic_suffix(kind: str, width: int) -> str:
    """A type as in the names of LLVM intrinsics: `v16f32`."""
    scalar = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(kind, kind)
    return f"v{width}{scalar}" if width else scalar


@dataclass(frozen=True, slots=True)
class LaneValues:
    """The values of `width` neighbours along one axis; width 0 is one value for all."""

    kind: str
    """The LLVM type of one lane."""
    name: str
    """An LLVM name or literal: of the uniform value, of the ramp's first lane, or of the vector."""
    width: int = 0
    step: int | None = None
    """Set for a ramp: the difference between neighbouring lanes, in the wrapping arithmetic of the type."""

    @property
    def uniform(self) -> bool:
        return not self.width


def as_vector(code: Assembly, lanes: LaneValues, width: int) -> str:
    """Convert lanes to one LLVM vector of `width`."""
    kind = vector_type(lanes.kind, width)
    if lanes.uniform:
        return splat(code, lanes.kind, lanes.name, width)
    if lanes.step is None:
        return lanes.name
    offsets = ", ".join(f"{lanes.kind} {lane * lanes.step}" for lane in range(width))
    first = splat(code, lanes.kind, lanes.name, width)
    return code.value(f"add {kind} {first}, <{offsets}>")


def splat(code: Assembly, kind: str, name: str, width: int) -> str:
    """A vector with one value in every lane."""
    if not name.startswith("%"):
        return f"splat ({kind} {name})"
    vector = vector_type(kind, width)
    first = code.value(f"insertelement {vector} poison, {kind} {name}, i64 0")
    return code.value(f"shufflevector {vector} {first}, {vector} poison, <{width} x i32> zeroinitializer")


Emit = Callable[[Assembly, str, int, list[str]], str]
"""Writes an operation, given the code, the operands' scalar type, their width (0: scalars) and their names."""


def lanewise(code: Assembly, operands: list[LaneValues], emit: Emit, kind: str) -> LaneValues:
    """Apply an operation lane by lane, or once if all operands are uniform; `kind` is the result's type."""
    width = max(lanes.width for lanes in operands)
    names = [as_vector(code, lanes, width) if width else lanes.name for lanes in operands]
    return LaneValues(kind, emit(code, operands[0].kind, width, names), width)


def any_set(code: Assembly, mask: str, width: int) -> str:
    """An i1 that is true if any lane of a mask is set."""
    if width == 1:
        return code.value(f"extractelement <1 x i1> {mask}, i64 0")
    bits = code.value(f"bitcast <{width} x i1> {mask} to i{width}")
    return code.value(f"icmp ne i{width} {bits}, 0")


def count_set(code: Assembly, mask: str, width: int) -> str:
    """The number of set lanes of a mask, as an i64."""
    bits = code.value(f"bitcast {vector_type('i1', width)} {mask} to i{width}")
    count = code.call(f"i{width}", f"llvm.ctpop.i{width}", (f"i{width}", bits)) if width > 1 else bits
    return code.value(f"zext i{width} {count} to i64")
