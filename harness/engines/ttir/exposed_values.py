"""Variants of a kernel's TTIR that also store intermediate values, each to a tensor of its own.

An exposed value changes the kernel that the compiler sees.  Whoever runs a variant checks that it shows the same fault.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from harness.engines.ttir.ir import Operation, TtirRegion, Type
from harness.engines.ttir.parser import parse

PREFIX = "exposed"
"""The names of the added parameters are this and a number."""
MOST_ELEMENTS = 1 << 22
"""The most elements of one exposed value, over all programs and iterations."""
KEPT_ITERATIONS = {1: 8, 2: 4, 3: 2}
"""The first iterations of each loop whose values are kept, by the number of loops around a value."""
NOT_EXPOSED = frozenset(
    {"arith.constant", "tt.make_range", "tt.splat", "tt.expand_dims", "tt.broadcast", "tt.get_program_id"}
    | {"tt.get_num_programs"}
)
"""Operations that the compiler rebuilds wherever it needs them."""
CLOSED_REGIONS = frozenset({"tt.reduce", "tt.scan", "tt.map_elementwise"})
"""Operations whose regions combine single elements: nothing is stored in them."""
STORED_AS = {"i1": "i8"}
"""The element type in memory, where it is another one."""

_RESULT = re.compile(r"^(\s*)(%[\w$.-]+)(?::(\d+))? = ")
_FOR = re.compile(r"scf\.for (?:unsigned )?(%[\w$.-]+) = (%[\w$.-]+) to %[\w$.-]+ step (%[\w$.-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop around a value."""

    line: int
    induction: str
    lower: str
    step: str
    type: str
    """`i32` or `i64`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposable:
    """A value of the kernel that can be stored."""

    name: str
    """`%acc_9`, or `%acc#1` for one of several results."""
    operation: str
    type: Type
    location: str
    line: int
    """The line of the text on which its operation begins, from 0."""
    last_line: int
    loops: tuple[Loop, ...]
    """From the outermost."""

    @property
    def kept(self) -> int:
        """The number of iterations that are kept of each loop around it."""
        return KEPT_ITERATIONS.get(len(self.loops), 1)

    @property
    def slots(self) -> int:
        return self.kept ** len(self.loops)

    @property
    def elements(self) -> int:
        """The elements of the value, once."""
        return prod(self.type.shape)

    @property
    def stored_element(self) -> str:
        element = self.type.element
        return "i8" if element.startswith("f8") else STORED_AS.get(element, element)

    def iterations(self, slot: int) -> tuple[int, ...]:
        """Return the iteration of each loop around it, from the number of the stored copy."""
        found: list[int] = []
        for _ in self.loops:
            found.append(slot % self.kept)
            slot //= self.kept
        return tuple(reversed(found))

    def moment(self, slot: int) -> tuple[int, ...]:
        """Return a key that orders the copies of all values as one program computes them."""
        outer = [
            part for loop, trip in zip(self.loops, self.iterations(slot), strict=True) for part in (loop.line, trip)
        ]
        return (*outer, self.last_line)


class ExposableKernel:
    """A kernel's TTIR and the values in it that can be exposed."""

    def __init__(self, ttir: str, grid: tuple[int, int, int]) -> None:
        self.ttir, self.grid = ttir, grid
        self._lines = ttir.splitlines()
        self._start = next(number for number, line in enumerate(self._lines) if "tt.func public" in line)

    @property
    def programs(self) -> int:
        return prod(self.grid)

    def values(self) -> tuple[Exposable, ...]:
        """Return the values in the order of the text."""
        kernel = parse(self.ttir).kernel
        return tuple(
            value
            for value in _Values(self._lines, self._start).of(kernel.body)
            if value.elements * value.slots * self.programs <= MOST_ELEMENTS
        )

    def exposing(self, values: Sequence[Exposable]) -> str:
        """Return the kernel with a parameter more for each value, to which each program stores its copies.

        The parameter points to an array of programs, copies and elements.
        """
        lines = list(self._lines)
        at: dict[int, list[str]] = {}
        for number, value in enumerate(values):
            at.setdefault(value.last_line, []).extend(_Store(value, number, self.grid).lines(self._lines[value.line]))
        for number, stores in at.items():
            lines[number] = "\n".join([lines[number], *stores])
        parameters = [
            f"%{PREFIX}{number}: !tt.ptr<{value.stored_element}> {{tt.divisibility = 16 : i32}}"
            for number, value in enumerate(values)
        ]
        lines[self._start] = _with_parameters(lines[self._start], parameters)
        return "\n".join(lines) + "\n"


def _with_parameters(line: str, parameters: Sequence[str]) -> str:
    """Return the first line of a function with parameters added."""
    opening = line.index("(")
    depth = 0
    for position in range(opening, len(line)):
        depth += {"(": 1, ")": -1}.get(line[position], 0)
        if not depth:
            separator = "" if position == opening + 1 else ", "
            return f"{line[:position]}{separator}{', '.join(parameters)}{line[position:]}"
    return line


class _Values:
    """Walks the operations of a kernel and the lines of its text side by side."""

    def __init__(self, lines: Sequence[str], start: int) -> None:
        self._lines = lines
        self._next = start + 1

    def of(self, region: TtirRegion, loops: tuple[Loop, ...] = (), *, is_closed: bool = False) -> Iterator[Exposable]:
        for block in region.blocks:
            for operation in block.operations:
                yield from self._of_operation(operation, loops, is_closed=is_closed)

    def _of_operation(self, operation: Operation, loops: tuple[Loop, ...], *, is_closed: bool) -> Iterator[Exposable]:
        line = self._line_of(operation)
        inner = loops
        if operation.name == "scf.for" and (loop := self._loop(line, operation)) is not None:
            inner = (*loops, loop)
        closed = is_closed or operation.name in CLOSED_REGIONS
        for region in operation.regions:
            yield from self.of(region, inner, is_closed=closed)
        if operation.results and not is_closed and operation.name not in NOT_EXPOSED:
            yield from self._results(operation, line, loops)

    def _line_of(self, operation: Operation) -> int:
        """Return the next line on which an operation of this name stands."""
        while operation.name not in self._lines[self._next]:
            self._next += 1
        line, self._next = self._next, self._next + 1
        return line

    def _loop(self, line: int, operation: Operation) -> Loop | None:
        names = _FOR.search(self._lines[line])
        kind = operation.operand_types[0].element
        if names is None or kind not in {"i32", "i64"}:
            return None
        return Loop(line=line, induction=names[1], lower=names[2], step=names[3], type=kind)

    def _results(self, operation: Operation, line: int, loops: tuple[Loop, ...]) -> Iterator[Exposable]:
        named = _RESULT.match(self._lines[line])
        if named is None:
            return
        for number, kind in enumerate(operation.result_types):
            if kind.is_pointer or not kind.bits or kind.element == "index" or kind.element.startswith("tensordesc"):
                continue
            yield Exposable(
                name=f"{named[2]}#{number}" if len(operation.result_types) > 1 else named[2],
                operation=operation.name,
                type=kind,
                location=operation.location,
                line=line,
                last_line=self._end_of(line, named[1]) if operation.regions else line,
                loops=loops,
            )

    def _end_of(self, line: int, indent: str) -> int:
        """Return the line on which the last region of an operation closes."""
        closing = re.compile(rf"^{indent}\}}(?!.*\{{$)")
        return next(number for number in range(line + 1, len(self._lines)) if closing.match(self._lines[number]))


@dataclass(frozen=True, slots=True)
class _Store:
    """The lines that store one value."""

    value: Exposable
    number: int
    grid: tuple[int, int, int]

    def lines(self, operation: str) -> list[str]:
        """Return the lines, with the indentation and the location of the value's operation."""
        indent = operation[: len(operation) - len(operation.lstrip())]
        return [f"{indent}{line} {self.value.location}".rstrip() for line in self._operations()]

    def _name(self, part: str) -> str:
        return f"%{PREFIX}{self.number}_{part}"

    def _operations(self) -> Iterator[str]:
        value, name = self.value, self._name
        yield from self._offset()
        pointer = f"!tt.ptr<{value.stored_element}>"
        yield f"{name('base')} = tt.addptr %{PREFIX}{self.number}, {name('offset')} : {pointer}, i32"
        if value.loops:
            yield from self._is_kept()
        if value.type.shape:
            yield from self._store_tile(pointer)
        else:
            mask = f", {name('kept')}" if value.loops else ""
            yield from self._stored(value.name, "")
            yield f"tt.store {name('base')}, {self._content(value.name)}{mask} : {pointer}"

    def _store_tile(self, pointer: str) -> Iterator[str]:
        value, name = self.value, self._name
        row, source, mask = f"tensor<{value.elements}x", value.name, ""
        if len(value.type.shape) > 1:
            source = name("row")
            yield f"{source} = tt.reshape {value.name} : {value.type} -> {row}{value.type.element}>"
        yield from self._stored(source, row)
        yield f"{name('lane')} = tt.make_range {{end = {value.elements} : i32, start = 0 : i32}} : {row}i32>"
        yield f"{name('bases')} = tt.splat {name('base')} : {pointer} -> {row}{pointer}>"
        yield f"{name('places')} = tt.addptr {name('bases')}, {name('lane')} : {row}{pointer}>, {row}i32>"
        if value.loops:
            mask = f", {name('mask')}"
            yield f"{name('mask')} = tt.splat {name('kept')} : i1 -> {row}i1>"
        yield f"tt.store {name('places')}, {self._content(source)}{mask} : {row}{pointer}>"

    def _stored(self, source: str, row: str) -> Iterator[str]:
        """Yield the conversion to the type in memory, if there is one; `row` begins the type of a tensor."""
        element, stored = self.value.type.element, self.value.stored_element
        before, after = (f"{row}{kind}>" if row else kind for kind in (element, stored))
        if element == "i1":
            yield f"{self._name('content')} = arith.extui {source} : {before} to {after}"
        elif element != stored:
            yield f"{self._name('content')} = tt.bitcast {source} : {before} -> {after}"

    def _content(self, source: str) -> str:
        return source if self.value.type.element == self.value.stored_element else self._name("content")

    def _offset(self) -> Iterator[str]:
        """Yield the operations that compute `offset`, the first element of this copy."""
        value, name = self.value, self._name
        factors: list[tuple[str, int]] = []
        stride = value.elements
        for level, loop in reversed(list(enumerate(value.loops))):
            yield from self._trip(level, loop)
            factors.append((name(f"trip{level}"), stride))
            stride *= value.kept
        for axis, extent in zip("xyz", self.grid, strict=True):
            if extent > 1:
                yield f"{name(axis)} = tt.get_program_id {axis} : i32"
                factors.append((name(axis), stride))
            stride *= extent
        total = name("start") if factors else name("offset")
        yield f"{total} = arith.constant 0 : i32"
        for number, (factor, each) in enumerate(factors, start=1):
            yield f"{name(f'stride{number}')} = arith.constant {each} : i32"
            yield f"{name(f'part{number}')} = arith.muli {factor}, {name(f'stride{number}')} : i32"
            sum_name = name("offset") if number == len(factors) else name(f"sum{number}")
            yield f"{sum_name} = arith.addi {total}, {name(f'part{number}')} : i32"
            total = sum_name

    def _trip(self, level: int, loop: Loop) -> Iterator[str]:
        """Yield the operations that compute the number of an iteration."""
        kind, narrow = loop.type, self._name(f"trip{level}")
        counted = narrow if kind == "i32" else self._name(f"wide{level}")
        yield f"{self._name(f'far{level}')} = arith.subi {loop.induction}, {loop.lower} : {kind}"
        yield f"{counted} = arith.divsi {self._name(f'far{level}')}, {loop.step} : {kind}"
        if kind != "i32":
            yield f"{narrow} = arith.trunci {counted} : {kind} to i32"

    def _is_kept(self) -> Iterator[str]:
        """Yield the operations that compute `kept`: the number of each iteration is small."""
        name, levels = self._name, len(self.value.loops)
        yield f"{name('most')} = arith.constant {self.value.kept} : i32"
        total = ""
        for level in range(levels):
            is_last = level == levels - 1
            small = name("kept") if levels == 1 else name(f"small{level}")
            yield f"{small} = arith.cmpi ult, {name(f'trip{level}')}, {name('most')} : i32"
            if total:
                both = name("kept") if is_last else name(f"both{level}")
                yield f"{both} = arith.andi {total}, {small} : i1"
                total = both
            else:
                total = small
