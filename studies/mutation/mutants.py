"""Mutants of one source file: every change that a rule makes in a kernel, or in a function that launches kernels.

Owns the choice of these functions, and the names and texts of mutants.  `studies.mutation.survey` knows which of their
lines are executed.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper, PositionProvider

from studies.mutation.operators import HOST_RULES, Operator, Rule, kernel_rules

STATEMENTS = (cst.SimpleStatementLine, cst.If, cst.For, cst.While, cst.With)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change in one function."""

    operator: Operator
    file: str
    """Relative to the library's folder, with `/`."""
    function: str
    """The kernel, a function that kernels call, or the function that launches them."""
    launches: tuple[str, ...]
    """The kernels that the function launches; empty if Triton compiles it."""
    line: int
    """The first line that differs."""
    before: str
    """The lines that differ, from the original."""
    after: str
    statement: tuple[int, int]
    """First and last line of the changed statement."""
    span: tuple[int, int]
    """Begin and end of the replaced bytes of the file."""
    text: str
    """The replacement."""
    nth: int = 1
    """Its number among the mutants of the function that change equal lines in the same way, from 1."""

    @property
    def id(self) -> str:
        """Eight hexadecimal digits."""
        what = "\n".join((self.operator, self.file, str(self.span), self.text))
        return hashlib.sha256(what.encode()).hexdigest()[:8]

    @property
    def is_in_kernel(self) -> bool:
        """True if it changes code that Triton compiles, not code that launches kernels."""
        return not self.launches

    def __str__(self) -> str:
        return f"{self.id} {self.operator} in {self.function} ({self.file.rpartition('/')[2]}:{self.line})"

    def apply(self, source: bytes) -> bytes:
        """Return the file with the change."""
        begin, end = self.span
        return source[:begin] + self.text.encode() + source[end:]


def mutants_of(source: bytes, file: str) -> tuple[Mutant, ...]:
    """Return all mutants of a Python file, in the order of its lines."""
    if b"jit" not in source:
        return ()
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    finder = _MutantFinder(wrapper, source, file)
    wrapper.module.visit(finder)
    unique = {mutant.apply(source): mutant for mutant in finder.mutants}
    ordered = sorted(unique.values(), key=lambda mutant: (mutant.line, mutant.span, mutant.operator, mutant.text))
    seen = Counter[tuple[str, ...]]()
    return tuple(replace(mutant, nth=_number_among_equals(seen, mutant)) for mutant in ordered)


def _number_among_equals(seen: Counter[tuple[str, ...]], mutant: Mutant) -> int:
    what = (mutant.operator, mutant.function, mutant.before.strip(), mutant.after.strip())
    seen[what] += 1
    return seen[what]


class _MutantFinder(cst.CSTVisitor):
    """Visits the outermost functions of a module."""

    def __init__(self, wrapper: MetadataWrapper, source: bytes, file: str) -> None:
        super().__init__()
        self.mutants: list[Mutant] = []
        self._module = wrapper.module
        self._source = source
        self._file = file
        self._spans = wrapper.resolve(ByteSpanPositionProvider)
        self._ranges = wrapper.resolve(PositionProvider)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802 -- the name is libcst's
        """Apply every rule to every node of the function's body."""
        launches = () if is_kernel(node) else tuple(dict.fromkeys(_launched(node)))
        rules: Mapping[Operator, Rule] = kernel_rules(node) if is_kernel(node) else HOST_RULES if launches else {}
        for place, statement in _nodes(node.body, node):
            for operator, rule in rules.items():
                for replacement in rule(place):
                    text = self._module.code_for_node(_within(place, replacement))
                    plain = self._mutant(place, statement, text)
                    self.mutants.append(replace(plain, operator=operator, function=node.name.value, launches=launches))
        return False

    def _mutant(self, place: cst.CSTNode, statement: cst.CSTNode, text: str) -> Mutant:
        """Return a mutant with other text in one place.  The caller fills in operator, function and launches."""
        span, lines = self._spans[place], self._ranges[statement]
        begin, end = span.start, span.start + span.length
        changed = self._source[:begin] + text.encode() + self._source[end:]
        line, before, after = _difference(self._source.decode(), changed.decode())
        return Mutant(
            operator=Operator.DROP_MASK,
            file=self._file,
            function="",
            launches=(),
            line=line,
            before=before,
            after=after,
            statement=(lines.start.line, lines.end.line),
            span=(begin, end),
            text=text,
        )


def _within(place: cst.CSTNode, replacement: cst.CSTNode) -> cst.CSTNode:
    """Return the replacement without the parentheses around its place, which are not part of the node's span."""
    if not isinstance(place, cst.BaseExpression) or not isinstance(replacement, cst.BaseExpression):
        return replacement
    kept = max(0, len(replacement.lpar) - len(place.lpar))
    return replacement.with_changes(lpar=replacement.lpar[:kept], rpar=replacement.rpar[:kept])


def is_kernel(function: cst.FunctionDef) -> bool:
    """Return True if Triton compiles the function: it has `@triton.jit`, `@triton.jit(…)` or `@jit`."""
    for decorator in function.decorators:
        named = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
        match named:
            case cst.Attribute(value=cst.Name(value="triton"), attr=cst.Name(value="jit")) | cst.Name(value="jit"):
                return True
            case _:
                pass
    return False


def _launched(function: cst.FunctionDef) -> Iterator[str]:
    """Yield the names of the kernels in `kernel[grid](…)`."""
    for node, _ in _nodes(function.body, function):
        match node:
            case cst.Call(func=cst.Subscript(value=cst.Name(value=name))):
                yield name
            case _:
                pass


def _nodes(node: cst.CSTNode, statement: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Yield every node below, outermost first, with the innermost statement that contains it."""
    for child in node.children:
        inner = child if isinstance(child, STATEMENTS) else statement
        yield child, inner
        yield from _nodes(child, inner)


def _difference(before: str, after: str) -> tuple[int, str, str]:
    """Return the number of the first line that differs, and the differing lines of both texts."""
    old, new = before.splitlines(), after.splitlines()
    head = _common_prefix(old, new)
    tail = _common_prefix(old[head:][::-1], new[head:][::-1])
    return head + 1, "\n".join(old[head : len(old) - tail]), "\n".join(new[head : len(new) - tail])


def _common_prefix(lines: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines at the beginning are equal."""
    return next(
        (index for index, (a, b) in enumerate(zip(lines, other, strict=False)) if a != b), min(len(lines), len(other))
    )
