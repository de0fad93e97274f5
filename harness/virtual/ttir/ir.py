"""TTIR as data: types, operations, blocks, regions, functions.  What `parser` makes and `machine` executes.

Values are numbered slots of one function; the machine keeps their contents in a list.  Nothing here depends on Triton.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.model.run import Source


@dataclass(frozen=True, slots=True)
class Type:
    """A TTIR type.  `element` is `f32`, `i64`, `index`, `ptr` or, for what is not understood, its text."""

    element: str
    shape: tuple[int, ...] = ()
    """Empty for scalars."""
    pointee: "Type | None" = None
    """What a pointer points at, or the block of a tensor descriptor."""

    @property
    def is_pointer(self) -> bool:
        """Whether it is a pointer or a block of pointers."""
        return self.element == "ptr"

    @property
    def bits(self) -> int:
        """Width of one element in memory; 64 for pointers and `index`."""
        if self.element in {"ptr", "index"}:
            return 64
        if self.element.startswith("f8"):
            return 8
        digits = "".join(character for character in self.element if character.isdigit())
        return int(digits) if digits else 0

    @property
    def bytes(self) -> int:
        """Size of one element in memory."""
        return max(1, self.bits // 8)

    def of(self, element: str) -> "Type":
        """The same shape with another element type."""
        return Type(element, self.shape)

    def __str__(self) -> str:
        inner = f"ptr<{self.pointee}>" if self.is_pointer else self.element
        return f"tensor<{'x'.join(map(str, self.shape))}x{inner}>" if self.shape else inner


@dataclass(slots=True)
class Operation:
    """One operation.  Mutable only while the parser builds it."""

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    operand_types: tuple[Type, ...]
    result_types: tuple[Type, ...]
    attributes: Mapping[str, "Attribute"]
    words: tuple[str, ...]
    """Bare keywords in order: a predicate, an axis name, an atomic's kind."""
    regions: tuple["TtirRegion", ...]
    successors: tuple["Successor", ...]
    location: str
    """The text of the `loc(…)` that ends the operation; resolved by `Module.source`."""
    frees: tuple[int, ...] = ()
    """Slots whose last use this is."""


Attribute = int | float | str | bool | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Successor:
    """The target of a branch, with the values that it hands over."""

    block: str
    arguments: tuple[int, ...]


@dataclass(slots=True)
class Block:
    """A straight run of operations with its arguments."""

    label: str
    arguments: tuple[int, ...]
    operations: list[Operation] = field(default_factory=list["Operation"])


@dataclass(slots=True)
class TtirRegion:
    """Blocks, entry first."""

    blocks: list[Block] = field(default_factory=list[Block])

    @property
    def entry(self) -> Block:
        """Where control enters."""
        return self.blocks[0]

    def all_operations(self) -> Iterator[Operation]:
        """The operations of all blocks, those of inner regions included."""
        for block in self.blocks:
            for operation in block.operations:
                yield operation
                for inner in operation.regions:
                    yield from inner.all_operations()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function."""

    name: str
    slot: int
    type: Type


@dataclass(slots=True)
class Function:
    """A `tt.func`."""

    name: str
    parameters: tuple[Parameter, ...]
    result_types: tuple[Type, ...]
    body: TtirRegion
    slots: int
    """How many values it has."""
    location: str
    public: bool


@dataclass(slots=True)
class Module:
    """All functions of one compiled kernel, and the table of source locations."""

    functions: Mapping[str, Function]
    locations: Mapping[str, str]
    _sources: dict[str, Source | None] = field(default_factory=dict[str, "Source | None"])

    @property
    def kernel(self) -> Function:
        """The public function."""
        return next(function for function in self.functions.values() if function.public)

    def source(self, location: str) -> Source | None:
        """The Python file and line of a `loc(…)` text: the innermost frame outside Triton's own standard library."""
        if location not in self._sources:
            frames = list(self._frames(location, 0))
            outside = [frame for frame in frames if "/triton/language/" not in frame.file]
            self._sources[location] = (outside or frames or [None])[0]
        return self._sources[location]

    def _frames(self, text: str, depth: int) -> list[Source]:
        if depth > 64:
            return []
        text = text.strip()
        if text.startswith("loc(") and text.endswith(")"):
            return self._frames(text[4:-1], depth + 1)
        if text.startswith("#"):
            return self._frames(self.locations[text], depth + 1) if text in self.locations else []
        if text.startswith("callsite("):
            callee, caller = _split_callsite(text[len("callsite(") : -1])
            return [*self._frames(callee, depth + 1), *self._frames(caller, depth + 1)]
        if text.startswith('"'):
            name, _, rest = text[1:].partition('"')
            if rest.startswith(":"):
                return [Source(file=name, line=int(rest[1:].split(":")[0]))]
            return self._frames(rest[1:-1], depth + 1) if rest.startswith("(") else []
        if text.startswith("fused"):
            inner = text[text.index("[") + 1 : text.rindex("]")]
            return self._frames(inner.split(",")[0], depth + 1)
        return []


_ASIDE = re.compile(r'"[^"]*"|[([<]|[])>]| at ')


def _split_callsite(text: str) -> tuple[str, str]:
    """`A at B` as A and B, which may be locations with an `at`, brackets or quotes of their own."""
    depth = 0
    for found in _ASIDE.finditer(text):
        depth += {"(": 1, "[": 1, "<": 1, ")": -1, "]": -1, ">": -1}.get(found[0], 0)
        if found[0] == " at " and not depth:
            return text[: found.start()], text[found.end() :]
    return text, ""


def mark_last_uses(region: TtirRegion) -> None:
    """Let each operation free the values that nothing after it in their own block uses."""
    for block in region.blocks:
        own = set(block.arguments)
        for operation in block.operations:
            own.update(operation.results)
            for inner in operation.regions:
                mark_last_uses(inner)
        if len(region.blocks) > 1:
            continue  # another block may use what this one defines
        seen: set[int] = set()
        for operation in reversed(block.operations):
            uses = set(_uses(operation))
            operation.frees = tuple((uses & own) - seen)
            seen |= uses


def _uses(operation: Operation) -> Iterator[int]:
    yield from operation.operands
    for successor in operation.successors:
        yield from successor.arguments
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _uses(inner)
