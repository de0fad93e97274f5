"""What a test compares a result with, read from its source: nothing is imported or executed.

A comparison is a call such as `torch.testing.assert_close(got, expected)`.  One side leads back to the call of the
library, and the other to the reference: a call, or an expression of torch.  What a test does besides to its tensors,
such as `x.detach().float()`, is left out, for the harness chooses the type in which a reference is computed.
"""

import ast
import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.drafts.seen_calls import SeenCall
from harness.syntax_trees import module_of

COMPARING = re.compile(r"assert_(\w*_)?(allclose|close|equal)|allclose|isclose|array_equal|torch_equal|equal")
CASTS = frozenset(
    {
        "bfloat16",
        "clone",
        "contiguous",
        "cpu",
        "cuda",
        "detach",
        "double",
        "float",
        "half",
        "requires_grad_",
        "to",
        "type",
    }
)
"""Methods that a reference does without."""
MADE = re.compile(r"\w*(rand|empty|normal|uniform|dropout|bernoulli|Parameter)\w*")
"""Calls that make a tensor which the op does not get."""
BUILTINS = frozenset({"abs", "float", "int", "len", "max", "min", "range", "sum"})
MOST_STEPS = 12
"""How many names are followed back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedReference:
    """The reference of a test."""

    __test__ = False  # pytest must not collect it

    imports: tuple[str, ...]
    """Statements that its expression needs."""
    expression: str
    """In terms of the op's parameters."""
    line: int
    """The line of the comparison in the test's file."""
    own_names: tuple[str, ...]
    """Functions and values of the test's module that the expression uses."""
    result_index: int | None = None
    """Which of the library's results is compared; None for all."""


@dataclass(frozen=True, slots=True)
class OpNames:
    """The names that the reference of an op may use."""

    passed: frozenset[str]
    """Its parameters and dims."""
    sizes: Mapping[int, str]
    """The dims that always had one size, by that size."""


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a value comes from: an expression, or one part of its value."""

    expression: ast.expr
    index: int | None


def comparison_line(path: Path, test: str) -> int:
    """Return the line of the test's first comparison; 0 if it has none, or cannot be read."""
    function = _function(path, test)
    return next((call.lineno for call in _comparisons(function)), 0) if function is not None else 0


def reference_of(path: Path, call: SeenCall, names: OpNames, output: str = "") -> TestedReference | None:
    """Return what a test compares the results of a call with; None if its source does not say.

    Args:
        path: the test's file.
        call: one of its calls.
        names: what a reference may use.
        output: the parameter that a launch stores its result to, if the call is a launch.
    """
    function = _function(path, call.test_function.rpartition("::")[2])
    if function is None:
        return None
    tree = module_of(path.read_text(encoding="utf-8"))
    reader = _TestReader(tree, function, call, names)
    stored = call.written.get(output, "")
    references = (reader.reference(comparison, call.called_as, stored) for comparison in _comparisons(function))
    return next(filter(None, references), None)


def _function(path: Path, test: str) -> ast.FunctionDef | None:
    try:
        tree = module_of(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    return next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == test), None)


def _comparisons(function: ast.FunctionDef) -> Iterator[ast.Call]:
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        if COMPARING.fullmatch(_last_name(call.func)) and len(_sides(call)) == 2:
            yield call


def _sides(call: ast.Call) -> list[ast.expr]:
    sides = [argument for argument in call.args if not isinstance(argument, ast.Constant | ast.JoinedStr)]
    if isinstance(call.func, ast.Attribute) and len(sides) == 1:  # `got.allclose(expected)`
        sides = [call.func.value, *sides]
    named = [keyword.value for keyword in call.keywords if keyword.arg in {"actual", "expected", "input", "other"}]
    return [*sides, *named][:2]


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _without_casts(node: ast.expr) -> ast.expr:
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CASTS:
            return _without_casts(value)
        case _:
            return node


class _TestReader:
    """Follows the names of one test back to where their values come from."""

    def __init__(self, tree: ast.Module, function: ast.FunctionDef, call: SeenCall, names: OpNames) -> None:
        self.assigned = _assigned(function)
        self.imports = _imports(tree)
        self.own = _own_names(tree)
        self.parameter_of = {text: parameter for parameter, text in call.written.items()}
        self.names = names

    def reference(self, comparison: ast.Call, called: str, stored: str) -> TestedReference | None:
        """Return the other side of a comparison with the result of a call, or with what a launch stored to."""
        sides = _sides(comparison)
        is_tested = [bool(stored) and ast.unparse(_without_casts(side)) == stored for side in sides]
        origins = [self._origin(side) for side in sides]
        if not any(is_tested):
            is_tested = [origin is not None and _calls(origin.expression, called) for origin in origins]
        if sum(is_tested) != 1:
            return None
        tested, other = origins if is_tested[0] else origins[::-1]
        if other is None:
            return None
        tested = tested if tested is not None and not stored else other
        rewriter = _Rewriter(self)
        try:
            text = ast.unparse(rewriter.followed(other.expression))
        except _CannotRewrite:
            return None
        is_part = other.index is not None and other.index != tested.index
        return TestedReference(
            imports=tuple(self.imports[name] for name in rewriter.needed if name in self.imports),
            expression=f"({text})[{other.index}]" if is_part else text,
            line=comparison.lineno,
            own_names=tuple(name for name in rewriter.needed if name not in self.imports),
            result_index=tested.index if tested.index != other.index else None,
        )

    def _origin(self, node: ast.expr, steps: int = 0) -> _Origin | None:
        """Return where the value of a side comes from; None for gradients and for names with several values."""
        if steps > MOST_STEPS:
            return None
        match node:
            case ast.Name(id=name):
                values = self.assigned.get(name, [])
                if len(values) != 1:
                    return None
                ((expression, index),) = values
                return self._origin(expression, steps + 1) if index is None else _Origin(expression, index)
            case ast.Attribute(attr="grad"):
                return None
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CASTS:
                return self._origin(value, steps + 1)
            case ast.Subscript(value=value, slice=ast.Constant(value=int(index))):
                inner = self._origin(value, steps + 1)
                return inner and _Origin(inner.expression, index)
            case _:
                return _Origin(node, None)


class _CannotRewrite(Exception):
    """An expression of a test needs something that its suite does not have."""


class _Rewriter(ast.NodeTransformer):
    """Rewrites an expression of a test as one of the op's parameters, and notes the names that it needs."""

    def __init__(self, reader: _TestReader) -> None:
        self._reader = reader
        self._steps = 0
        self.needed: dict[str, None] = {}

    def followed(self, node: ast.expr) -> ast.expr:
        """Return a rewritten copy.

        Raises:
            _CannotRewrite: the expression needs what the op does not get.
        """
        if self._steps > MOST_STEPS:
            raise _CannotRewrite
        self._steps += 1
        rewritten = self.visit(copy.deepcopy(node))
        self._steps -= 1
        return rewritten

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.expr) and not isinstance(node, ast.Constant):
            parameter = self._reader.parameter_of.get(ast.unparse(node))
            if parameter:
                return ast.Name(id=parameter)
        match node:
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CASTS:
                return self.followed(value)
            case ast.Call(func=function) if MADE.fullmatch(_last_name(function)):
                raise _CannotRewrite
            case ast.Constant(value=int(number)) if type(number) is int and number in self._reader.names.sizes:
                return ast.Name(id=self._reader.names.sizes[number])
            case ast.Lambda() | ast.ListComp() | ast.GeneratorExp() | ast.DictComp() | ast.SetComp() | ast.Await():
                raise _CannotRewrite
            case _:
                return self.generic_visit(node)

    def _name(self, node: ast.Name, name: str) -> ast.expr:
        values = self._reader.assigned.get(name)
        if values:
            if len(values) != 1:
                raise _CannotRewrite
            ((value, index),) = values
            inner = self.followed(value)
            if isinstance(value, ast.Call) and not self._depends(inner):
                raise _CannotRewrite  # what a test makes by itself, such as a module with weights of its own
            return inner if index is None else ast.Subscript(value=inner, slice=ast.Constant(value=index))
        if name in self._reader.imports or name in self._reader.own:
            if name not in self._reader.names.passed:
                self.needed[name] = None
        elif name not in self._reader.names.passed and name not in BUILTINS:
            raise _CannotRewrite
        return node

    def _depends(self, node: ast.expr) -> bool:
        return any(isinstance(part, ast.Name) and part.id in self._reader.names.passed for part in ast.walk(node))


def _calls(expression: ast.expr, called: str) -> bool:
    return any(isinstance(part, ast.Call) and ast.unparse(part.func) == called for part in ast.walk(expression))


def _assigned(function: ast.FunctionDef) -> dict[str, list[tuple[ast.expr, int | None]]]:
    """Return by name the expressions that the test gives it, each with the part of its value."""
    assigned: dict[str, list[tuple[ast.expr, int | None]]] = {}
    for statement in ast.walk(function):
        match statement:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    for name, index in _targets(target):
                        assigned.setdefault(name, []).append((value, index))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                assigned.setdefault(name, []).append((value, None))
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                assigned.setdefault(name, []).append((value, None))
            case ast.For(target=target, iter=value):
                for name, _ in _targets(target):
                    assigned.setdefault(name, []).extend([(value, None)] * 2)
            case _:
                pass
    return assigned


def _targets(target: ast.expr) -> Iterator[tuple[str, int | None]]:
    match target:
        case ast.Name(id=name):
            yield name, None
        case ast.Tuple(elts=members) | ast.List(elts=members):
            for index, member in enumerate(members):
                if isinstance(member, ast.Name):
                    yield member.id, index
        case _:
            pass


def _imports(tree: ast.Module) -> dict[str, str]:
    """Return by name the statement that imports it, without imports relative to the test's package."""
    imports: dict[str, str] = {}
    for statement in tree.body:
        match statement:
            case ast.Import(names=names):
                for alias in names:
                    name = (alias.asname or alias.name).partition(".")[0]
                    imports[name] = ast.unparse(ast.Import(names=[alias]))
            case ast.ImportFrom(module=str(), names=names, level=0):
                for alias in names:
                    own = ast.ImportFrom(module=statement.module, names=[alias], level=0)
                    imports[alias.asname or alias.name] = ast.unparse(own)
            case _:
                pass
    return imports


def _own_names(tree: ast.Module) -> frozenset[str]:
    functions = {statement.name for statement in tree.body if isinstance(statement, ast.FunctionDef | ast.ClassDef)}
    return frozenset(
        functions
        | {
            name
            for statement in tree.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            for name, _ in _targets(target)
        }
    )
