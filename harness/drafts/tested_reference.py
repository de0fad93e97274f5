"""What a test compares a result with, read from its source: nothing is imported or executed.

A comparison is a call such as `torch.testing.assert_close(got, expected)`.  One side leads back to the call of the
library, and the other to the reference: a call, or an expression of torch.  What a test does besides to its tensors,
such as `x.detach().float()`, is left out, for the harness chooses the type in which a reference is computed.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.drafts.seen_calls import SeenCall

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
class _Origin:
    """Where a value comes from: an expression, or one part of its value."""

    expression: ast.expr
    index: int | None


def comparison_line(path: Path, test: str) -> int:
    """Return the line of the test's first comparison; 0 if it has none, or cannot be read."""
    function = _function(path, test)
    return next((call.lineno for call in _comparisons(function)), 0) if function is not None else 0


def reference_of(
    path: Path, call: SeenCall, passed: Sequence[str], sizes: Mapping[int, str], output: str = ""
) -> TestedReference | None:
    """Return what a test compares the results of a call with; None if its source does not say.

    Args:
        path: the test's file.
        call: one of its calls.
        passed: the parameters and dims that a reference may use.
        sizes: the dims that always had one size, by that size.
        output: the parameter that a launch stores its result to, if the call is a launch.
    """
    function = _function(path, call.test_function.rpartition("::")[2])
    if function is None:
        return None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    reader = _TestReader(tree, function, call.written, frozenset(passed), sizes)
    stored = call.written.get(output, "")
    return next(filter(None, (reader.reference(one, call.called_as, stored) for one in _comparisons(function))), None)


def _function(path: Path, test: str) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    return next((one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == test), None)


def _comparisons(function: ast.FunctionDef) -> Iterator[ast.Call]:
    calls = [one for one in ast.walk(function) if isinstance(one, ast.Call)]
    for call in sorted(calls, key=lambda one: (one.lineno, one.col_offset)):
        if COMPARING.fullmatch(_last_name(call.func)) and len(_sides(call)) == 2:
            yield call


def _sides(call: ast.Call) -> list[ast.expr]:
    given = [one for one in call.args if not isinstance(one, ast.Constant | ast.JoinedStr)]
    if isinstance(call.func, ast.Attribute) and len(given) == 1:  # `got.allclose(expected)`
        given = [call.func.value, *given]
    named = [one.value for one in call.keywords if one.arg in {"actual", "expected", "input", "other"}]
    return [*given, *named][:2]


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

    def __init__(
        self,
        tree: ast.Module,
        function: ast.FunctionDef,
        written: Mapping[str, str],
        passed: frozenset[str],
        sizes: Mapping[int, str],
    ) -> None:
        self._assigned = _assigned(function)
        self._imports = _imports(tree)
        self._own = _own_names(tree)
        self._passed = passed
        self._sizes = sizes
        self._parameter_of = {text: parameter for parameter, text in written.items()}

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
        tested = tested if tested is not None and not stored else _Origin(other.expression, other.index)
        needed: dict[str, None] = {}
        expression = self._rewritten(other.expression, needed, 0)
        if expression is None:
            return None
        text = ast.unparse(expression)
        is_part = other.index is not None and other.index != tested.index
        return TestedReference(
            imports=tuple(self._imports[name] for name in needed if name in self._imports),
            expression=f"({text})[{other.index}]" if is_part else text,
            line=comparison.lineno,
            own_names=tuple(name for name in needed if name not in self._imports),
            result_index=tested.index if tested.index != other.index else None,
        )

    def _origin(self, node: ast.expr, steps: int = 0) -> _Origin | None:
        """Return where the value of a side comes from; None for gradients and for names with several values."""
        if steps > MOST_STEPS:
            return None
        match node:
            case ast.Name(id=name):
                found = self._assigned.get(name, [])
                if len(found) != 1:
                    return None
                expression, index = found[0]
                if index is not None:
                    return _Origin(expression, index)
                return self._origin(expression, steps + 1)
            case ast.Attribute(attr="grad"):
                return None
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CASTS:
                return self._origin(value, steps + 1)
            case ast.Subscript(value=value, slice=ast.Constant(value=int(index))):
                inner = self._origin(value, steps + 1)
                return inner and _Origin(inner.expression, index)
            case _:
                return _Origin(node, None)

    def _rewritten(self, node: ast.expr, needed: dict[str, None], steps: int) -> ast.expr | None:
        """Return an expression of the op's parameters; None if it needs something else.  Notes the names it needs."""
        if steps > MOST_STEPS:
            return None
        parameter = self._parameter(node)
        if parameter:
            return ast.Name(id=parameter)
        match node:
            case ast.Name(id=name):
                return self._rewritten_name(name, needed, steps)
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CASTS:
                return self._rewritten(value, needed, steps + 1)
            case ast.Constant(value=int(number)) if type(number) is int and number in self._sizes:
                return ast.Name(id=self._sizes[number])
            case ast.Call(func=function) if MADE.fullmatch(_last_name(function)):
                return None
            case ast.Lambda() | ast.ListComp() | ast.GeneratorExp() | ast.DictComp() | ast.SetComp() | ast.Await():
                return None
            case _:
                return self._rewritten_parts(node, needed, steps)

    def _rewritten_name(self, name: str, needed: dict[str, None], steps: int) -> ast.expr | None:
        found = self._assigned.get(name)
        if found:
            ((value, index),) = found[:1]
            inner = self._rewritten(value, needed, steps + 1) if len(found) == 1 else None
            if inner is not None and isinstance(value, ast.Call) and not self._depends(inner):
                return None  # what a test makes by itself, such as a module with weights of its own
            return ast.Subscript(value=inner, slice=ast.Constant(value=index)) if inner and index is not None else inner
        if name in self._passed:
            return ast.Name(id=name)
        if name in self._imports or name in self._own:
            needed[name] = None
            return ast.Name(id=name)
        return ast.Name(id=name) if name in {"abs", "float", "int", "len", "max", "min", "range", "sum"} else None

    def _rewritten_parts(self, node: ast.expr, needed: dict[str, None], steps: int) -> ast.expr | None:
        copy = ast.parse(ast.unparse(node), mode="eval").body
        for field, value in ast.iter_fields(node):
            match value:
                case ast.expr():
                    inner = self._rewritten(value, needed, steps)
                    if inner is None:
                        return None
                    setattr(copy, field, inner)
                case [*members] if any(isinstance(one, ast.expr) for one in members):
                    inner_members = [
                        self._rewritten(one, needed, steps) if isinstance(one, ast.expr) else one for one in members
                    ]
                    if None in inner_members:
                        return None
                    setattr(copy, field, inner_members)
                case [*members] if any(isinstance(one, ast.keyword) for one in members):
                    kept: list[ast.keyword] = []
                    for one in members:
                        inner = self._rewritten(one.value, needed, steps)
                        if inner is None:
                            return None
                        kept.append(ast.keyword(arg=one.arg, value=inner))
                    setattr(copy, field, kept)
                case _:
                    pass
        return copy

    def _depends(self, node: ast.expr) -> bool:
        return any(isinstance(one, ast.Name) and one.id in self._passed for one in ast.walk(node))

    def _parameter(self, node: ast.expr) -> str | None:
        """Return the parameter of the op that an expression of the test stands for."""
        if isinstance(node, ast.Constant):
            return None
        return self._parameter_of.get(ast.unparse(node))


def _calls(expression: ast.expr, called: str) -> bool:
    return any(isinstance(one, ast.Call) and ast.unparse(one.func) == called for one in ast.walk(expression))


def _assigned(function: ast.FunctionDef) -> dict[str, list[tuple[ast.expr, int | None]]]:
    """Return by name the expressions that the test gives it, each with the part of its value."""
    found: dict[str, list[tuple[ast.expr, int | None]]] = {}
    for one in ast.walk(function):
        match one:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    for name, index in _targets(target):
                        found.setdefault(name, []).append((value, index))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.setdefault(name, []).append((value, None))
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                found.setdefault(name, []).append((value, None))
            case ast.For(target=target, iter=value):
                for name, _ in _targets(target):
                    found.setdefault(name, []).extend([(value, None)] * 2)
            case _:
                pass
    return found


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
    found: dict[str, str] = {}
    for one in tree.body:
        match one:
            case ast.Import(names=names):
                for alias in names:
                    name = (alias.asname or alias.name).partition(".")[0]
                    found[name] = ast.unparse(ast.Import(names=[alias]))
            case ast.ImportFrom(module=str(), names=names, level=0):
                for alias in names:
                    statement = ast.ImportFrom(module=one.module, names=[alias], level=0)
                    found[alias.asname or alias.name] = ast.unparse(statement)
            case _:
                pass
    return found


def _own_names(tree: ast.Module) -> frozenset[str]:
    functions = {one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    return frozenset(
        functions
        | {
            name
            for one in tree.body
            if isinstance(one, ast.Assign)
            for target in one.targets
            for name, _ in _targets(target)
        }
    )
