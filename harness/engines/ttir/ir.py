"""TTIR as data: types, operations, blocks, regions, functions.  `parser` builds them and `machine` executes them.

Values are numbered slots of one function, and the machine keeps their contents in a list.  Nothing here depends on
Triton.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, wraps
from typing import Any, TypeVar

from harness.model.run import Source


@dataclass(frozen=True, slots=True)
class Type:
    """A TTIR type.  `element` is `f32`, `i64`, `index` or `ptr`; for an unknown type it is the type's text."""

    element: str
    shape: tuple[int, ...] = ()
    """Empty for scalars."""
    pointee: "Type | None" = None
    """The type behind a pointer, or the block of a tensor descriptor."""

    @property
    def is_pointer(self) -> bool:
        """True for a pointer and for a block of pointers."""
        return self.element == "ptr"

    @property
    def bits(self) -> int:
        """Width of one element in memory; 64 for pointers and `index`, 0 if unknown."""
        return _bits(self.element)

    @property
    def bytes(self) -> int:
        """Size of one element in memory."""
        return max(1, self.bits // 8)

    def with_element(self, element: str) -> "Type":
        """Return the same shape with another element type."""
        return Type(element, self.shape)

    def __str__(self) -> str:
        inner = f"ptr<{self.pointee}>" if self.is_pointer else self.element
        return f"tensor<{'x'.join(map(str, self.shape))}x{inner}>" if self.shape else inner


@cache
def _bits(element: str) -> int:
    if element in {"ptr", "index"}:
        return 64
    if element.startswith("f8"):
        return 8
    digits = "".join(character for character in element if character.isdigit())
    return int(digits) if digits else 0


@dataclass(slots=True)
class Operation:
    """One operation.  Mutable only while the parser builds it."""

    name: str
    operands: tuple[int, ...] = ()
    results: tuple[int, ...] = ()
    operand_types: tuple[Type, ...] = ()
    result_types: tuple[Type, ...] = ()
    attributes: Mapping[str, "Attribute"] = field(default_factory=dict[str, "Attribute"])
    keywords: tuple[str, ...] = ()
    """Bare keywords in order: a predicate, an axis name, an atomic's kind."""
    regions: tuple["TtirRegion", ...] = ()
    successors: tuple["Successor", ...] = ()
    location: str = ""
    """The text of the `loc(…)` that ends the operation; `Module.source` resolves it."""
    frees: tuple[int, ...] = ()
    """Slots that no later operation uses."""
    is_dropped: bool = False
    """No operation uses a result."""


STANDARD_LIBRARY = "/triton/language/"
"""A part of the paths of Triton's own functions."""
UNREAD = "unread"
"""The operation that stands for the body of a kernel of which only the signature is read.  It takes all arguments."""
Attribute = int | float | str | bool | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Successor:
    """The target of a branch, and the values that it passes."""

    block: str
    arguments: tuple[int, ...]


@dataclass(slots=True)
class Block:
    """A basic block: operations in order, and its arguments."""

    label: str
    arguments: tuple[int, ...]
    operations: list[Operation] = field(default_factory=list["Operation"])
    number: int = 0
    """Its index in `Module.blocks`."""


@dataclass(slots=True)
class TtirRegion:
    """The blocks of a region, entry first."""

    blocks: list[Block] = field(default_factory=list[Block])

    @property
    def entry(self) -> Block:
        return self.blocks[0]

    def all_blocks(self) -> Iterator[Block]:
        """Yield all blocks, including those of inner regions."""
        for block in self.blocks:
            yield block
            for operation in block.operations:
                for inner in operation.regions:
                    yield from inner.all_blocks()

    def all_operations(self) -> Iterator[Operation]:
        """Yield the operations of all blocks, including those of inner regions."""
        for block in self.blocks:
            for operation in block.operations:
                yield operation
                for inner in operation.regions:
                    yield from inner.all_operations()


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    slot: int
    type: Type
    divisibility: int = 1
    """A number that divides the argument, in bytes for a pointer, as Triton promises it to the compiler."""


@dataclass(slots=True)
class Function:
    """A `tt.func`."""

    name: str
    parameters: tuple[Parameter, ...]
    result_types: tuple[Type, ...]
    body: TtirRegion
    slots: int
    """The number of its values."""
    location: str
    public: bool


@dataclass(slots=True)
class Module:
    """All functions of one compiled kernel, and the table of source locations."""

    functions: Mapping[str, Function]
    locations: Mapping[str, str]
    block_count: int = 0
    """The number of blocks, if they have their numbers already."""
    facts: dict[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)
    """What has been read from the operations, by the name of the function that read it; see `module_fact`."""
    _sources: dict[str, Source | None] = field(default_factory=dict[str, "Source | None"], compare=False)

    def __post_init__(self) -> None:
        if not self.block_count:
            for number, block in enumerate(self.blocks):
                block.number, self.block_count = number, number + 1

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of all functions, in an order that depends only on the text."""
        bodies = (function.body for function in self.functions.values())
        return tuple(block for body in bodies for block in body.all_blocks())

    @property
    def kernel(self) -> Function:
        """The public function of the module."""
        return next(function for function in self.functions.values() if function.public)

    def source(self, location: str) -> Source | None:
        """Return the Python file and line of a `loc(…)` text.

        This is the innermost frame outside Triton's own standard library, after inlining.
        """
        if location not in self._sources:
            frames = self._frames(location, 0)
            outside = [frame for frame in frames if STANDARD_LIBRARY not in frame.file]
            self._sources[location] = (outside or frames or [None])[0]
        return self._sources[location]

    def call_stack(self, location: str) -> tuple[Source, ...]:
        """Return the places of a `loc(…)` text outside Triton's standard library, from a callee to its callers."""
        return tuple(frame for frame in self._frames(location, 0) if STANDARD_LIBRARY not in frame.file)

    def _frames(self, text: str, depth: int) -> list[Source]:
        if depth > 64:  # aliases of damaged text may refer to each other
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


_Fact = TypeVar("_Fact")
MODULE_FACTS: list[Callable[[Module], object]] = []
"""All functions whose results modules remember."""


def module_fact(read: Callable[[Module], _Fact]) -> Callable[[Module], _Fact]:
    """Let each module remember what this function reads from its operations, and `kept_modules` keep it on disk."""
    name = f"{read.__module__}.{read.__qualname__}"

    @wraps(read)
    def remembered(module: Module) -> _Fact:
        if name not in module.facts:
            module.facts[name] = read(module)
        return module.facts[name]

    MODULE_FACTS.append(remembered)
    return remembered


@module_fact
def operation_locations(module: Module) -> tuple[str, ...]:
    """Return the locations of all operations, in an order that depends only on the text."""
    bodies = (function.body for function in module.functions.values())
    return tuple(operation.location for body in bodies for operation in body.all_operations())


@module_fact
def operation_names(module: Module) -> frozenset[str]:
    """Return the names of the kernel's own operations."""
    return frozenset(operation.name for operation in module.kernel.body.all_operations())


_BRACKET_OR_AT = re.compile(r'"[^"]*"|[([<]|[])>]| at ')


def _split_callsite(text: str) -> tuple[str, str]:
    """Split `A at B` into A and B.  Both may be locations with their own `at`, brackets or quotes."""
    depth = 0
    for mark in _BRACKET_OR_AT.finditer(text):
        depth += {"(": 1, "[": 1, "<": 1, ")": -1, "]": -1, ">": -1}.get(mark[0], 0)
        if mark[0] == " at " and not depth:
            return text[: mark.start()], text[mark.end() :]
    return text, ""


def mark_last_uses(region: TtirRegion) -> None:
    """Set `frees` of each operation, the values of its block that nothing after it uses, and `is_dropped`."""
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
            operation.is_dropped = seen.isdisjoint(operation.results)
            seen |= uses


def _uses(operation: Operation) -> Iterator[int]:
    yield from operation.operands
    for successor in operation.successors:
        yield from successor.arguments
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _uses(inner)
