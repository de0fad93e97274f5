"""The parts of a PTX kernel: instructions and their operands, registers, parameters, and the source lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.model.run import Source


@dataclass(frozen=True, slots=True)
class Register:
    """A register that the text declares; `bits` is 1 for a predicate."""

    name: str
    bits: int


@dataclass(frozen=True, slots=True)
class Special:
    """A register that the GPU sets: `%tid.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant: its bits as a signed or unsigned integer; those of a floating-point constant as unsigned."""

    value: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, a parameter, a label or a function."""

    name: str


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: the result is dropped."""


@dataclass(frozen=True, slots=True)
class Negated:
    """`!p`: the opposite of a predicate."""

    register: Register


@dataclass(frozen=True, slots=True)
class RegisterVector:
    """`{a, b}`: several operands as one, the lowest first."""

    parts: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """`a|b`: two results."""

    first: "Operand"
    second: "Operand"


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`; of a tensor map also the coordinates, `[map, {c0, c1}]`."""

    base: "Operand"
    offset: int = 0
    coordinates: tuple["Operand", ...] = ()


Operand = Register | Special | Immediate | Symbol | Sink | Negated | RegisterVector | Pair | Address


def parts(operand: Operand) -> Sequence[Operand]:
    """Return the operands of a vector; of another operand, itself alone."""
    return operand.parts if isinstance(operand, RegisterVector) else (operand,)


@dataclass(frozen=True, slots=True, eq=False)
class PtxInstruction:
    """One instruction.  Its words are the parts of the opcode: `("ld", "global", "v4", "b32")`."""

    words: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | Negated | None
    location: str
    """The key of its source line in `PtxKernel.sources`; empty for an instruction before the first line."""

    @property
    def root(self) -> str:
        return self.words[0]

    @property
    def opcode(self) -> str:
        return ".".join(self.words)

    @property
    def kind(self) -> str:
        """The type that it computes in: its last word."""
        return self.words[-1]

    def __str__(self) -> str:
        return self.opcode


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxParameter:
    """A parameter of the entry: where its bytes begin among all parameters."""

    name: str
    offset: int
    size_bytes: int
    is_aggregate: bool
    """A byte array, such as a tensor map, of which the kernel takes the address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable in shared, constant or global memory: its space, alignment, size, and initial bytes."""

    name: str
    space: str
    align: int
    size_bytes: int
    """0 for the memory whose size the launch decides."""
    content: bytes = b""
    offset: int = 0
    """Of a variable in local memory: where it begins there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxKernel:
    """The entry of a PTX module, with the functions that it calls inlined."""

    name: str
    target: str
    """`sm_90a`."""
    parameters: tuple[PtxParameter, ...]
    variables: Mapping[str, Variable]
    registers: tuple[Register, ...]
    instructions: tuple[PtxInstruction, ...]
    labels: Mapping[str, int]
    """By label, the index of the instruction that it precedes."""
    threads: int
    """The threads of a CTA."""
    cluster: int = 1
    """The CTAs of a cluster."""
    sources: Mapping[str, Source] = field(default_factory=dict[str, Source])
    """By location; for inlined code the place in the function itself."""
    local_bytes: int = 0
    """The bytes of local memory of a thread."""

    @property
    def arch(self) -> int:
        return int("".join(filter(str.isdigit, self.target)))
