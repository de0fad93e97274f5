"""Mutants of one source file: every change that a rule makes in a kernel, or in a function that launches kernels.

Owns which functions those are, and how a mutant is named and written.  Which of their lines are executed is for
`harness.mutation.survey`.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper, PositionProvider

from harness.mutation.operators import HOST_RULES, RULES, Operator, Rule

STATEMENTS = (cst.SimpleStatementLine, cst.If, cst.For, cst.While, cst.With)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change in one function."""

    operator: Operator
    file: str
    """Relative to the library's folder, with `/`."""
    function: str
    """The kernel, the function that kernels call, or the one that launches them."""
    launches: tuple[str, ...]
    """The kernels that the function launches; empty where it is a kernel itself."""
    line: int
    """Of the first line that differs."""
    before: str
    """The lines that differ, as they were."""
    after: str
    statement: tuple[int, int]
    """First and last line of the statement that is changed."""
    span: tuple[int, int]
    """Which bytes of the file are replaced."""
    text: str
    """By what."""
    nth: int = 1
    """Among the mutants of its function that make the same of equal lines."""

    @property
    def id(self) -> str:
        """Eight hex digits."""
        what = "\n".join((self.operator, self.file, str(self.span), self.text))
        return hashlib.sha256(what.encode()).hexdigest()[:8]

    @property
    def is_in_kernel(self) -> bool:
        """Whether it changes what is compiled, and not what launches it."""
        return not self.launches

    def __str__(self) -> str:
        return f"{self.id} {self.operator} in {self.function} ({self.file.rpartition('/')[2]}:{self.line})"

    def of(self, source: bytes) -> bytes:
        """The file with the change in it."""
        begin, end = self.span
        return source[:begin] + self.text.encode() + source[end:]


def mutants_of(source: bytes, file: str) -> tuple[Mutant, ...]:
    """All mutants of a Python file, in the order of its lines; none where it has no kernel."""
    if b"jit" not in source:
        return ()
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    walk = _Walk(wrapper, source, file)
    wrapper.module.visit(walk)
    unique = {mutant.of(source): mutant for mutant in walk.found}
    ordered = sorted(unique.values(), key=lambda mutant: (mutant.line, mutant.span, mutant.operator, mutant.text))
    seen = Counter[tuple[str, ...]]()
    return tuple(replace(mutant, nth=_count(seen, mutant)) for mutant in ordered)


def _count(seen: Counter[tuple[str, ...]], mutant: Mutant) -> int:
    what = (mutant.operator, mutant.function, mutant.before.strip(), mutant.after.strip())
    seen[what] += 1
    return seen[what]


class _Walk(cst.CSTVisitor):
    """Goes through the outermost functions of a module."""

    def __init__(self, wrapper: MetadataWrapper, source: bytes, file: str) -> None:
        super().__init__()
        self.found: list[Mutant] = []
        self._module = wrapper.module
        self._source = source
        self._file = file
        self._spans = wrapper.resolve(ByteSpanPositionProvider)
        self._ranges = wrapper.resolve(PositionProvider)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802 -- the name is libcst's
        """Try every rule in the function's body."""
        launches = () if is_kernel(node) else tuple(dict.fromkeys(_launched(node)))
        rules: Mapping[Operator, Rule] = RULES if is_kernel(node) else HOST_RULES if launches else {}
        for place, statement in _nodes(node.body, node):
            for operator, rule in rules.items():
                for replacement in rule(place):
                    text = self._module.code_for_node(_within(place, replacement))
                    plain = self._mutant(place, statement, text)
                    self.found.append(replace(plain, operator=operator, function=node.name.value, launches=launches))
        return False

    def _mutant(self, place: cst.CSTNode, statement: cst.CSTNode, text: str) -> Mutant:
        """A mutant with other text in one place, as far as that decides it."""
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
    """The replacement without the parentheses that stand around its place anyway: they are not part of its span."""
    if not isinstance(place, cst.BaseExpression) or not isinstance(replacement, cst.BaseExpression):
        return replacement
    kept = max(0, len(replacement.lpar) - len(place.lpar))
    return replacement.with_changes(lpar=replacement.lpar[:kept], rpar=replacement.rpar[:kept])


def is_kernel(function: cst.FunctionDef) -> bool:
    """Whether Triton compiles the function: `@triton.jit`, `@triton.jit(…)` or `@jit`."""
    for decorator in function.decorators:
        named = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
        match named:
            case cst.Attribute(value=cst.Name(value="triton"), attr=cst.Name(value="jit")) | cst.Name(value="jit"):
                return True
            case _:
                pass
    return False


def _launched(function: cst.FunctionDef) -> Iterator[str]:
    """The names of the kernels in `kernel[grid](…)`."""
    for node, _ in _nodes(function.body, function):
        match node:
            case cst.Call(func=cst.Subscript(value=cst.Name(value=name))):
                yield name
            case _:
                pass


def _nodes(node: cst.CSTNode, statement: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Every node below, outermost first, with the innermost statement that it is part of."""
    for child in node.children:
        inner = child if isinstance(child, STATEMENTS) else statement
        yield child, inner
        yield from _nodes(child, inner)


def _difference(before: str, after: str) -> tuple[int, str, str]:
    """The number of the first line that differs, and the lines that do, of both."""
    old, new = before.splitlines(), after.splitlines()
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    return head + 1, "\n".join(old[head : len(old) - tail]), "\n".join(new[head : len(new) - tail])


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines at the beginning are equal."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
