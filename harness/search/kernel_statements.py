"""The executable lines of kernels, read from their Python source, and those that a launch has executed.

A line is the first line of a statement.  It is executable if the statement makes code: constants, static assertions and
conditions on `tl.constexpr` parameters make none.  Which lines were executed follows from operations of the compiled
kernel.  Some statements have none, since the compiler removes and joins operations.  So a statement that a program gets
past is executed too.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from harness.syntax_trees import module_of

JIT = "jit"
"""The last part of the name of a decorator that makes a kernel or a device function."""
OF_CONSTANTS = frozenset({"cdiv", "constexpr", "len", "max", "min", "next_power_of_2"})
"""Functions that make a constant of constants."""
WITHOUT_CODE = frozenset({"static_assert", "static_print"})
UNROLLED = "static_range"
OF_TYPES = frozenset({"dtype", "element_ty", "numel", "shape", "type", "value"})
"""Attributes of a block that the compiler knows."""

_Statements = Sequence[ast.stmt]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFunction:
    """A kernel or a device function in a file."""

    name: str
    line: int
    """Of its `def`."""
    last_line: int
    is_jit: bool
    """True if a decorator says so.  The library may make a kernel of a function by other means."""
    executable: frozenset[int]
    body: tuple[ast.stmt, ...]
    constants: frozenset[str]
    """Names whose values the compiler knows."""

    def executed(self, seen: frozenset[int]) -> frozenset[int]:
        """Return the executable lines that a launch has executed with operations of the lines `seen`."""
        visit = _Visit(seen, _Conditions(self.constants))
        for statement in _statements_below(self.body):
            if isinstance(statement, ast.If):
                visit.conditions.learn_from(statement, seen)
        visit.suite(self.body)
        return self.executable & visit.lines


def functions_of(text: str) -> tuple[KernelFunction, ...]:
    """Return all functions of a Python file, an inner one before the one that holds it; none if it is no Python."""
    try:
        tree = module_of(text)
    except (SyntaxError, ValueError):
        return ()
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return tuple(map(_function, sorted(nodes, key=lambda node: (-node.lineno, node.name))))


def _function(node: ast.FunctionDef) -> KernelFunction:
    constants = _constants_of(node)
    return KernelFunction(
        name=node.name,
        line=node.lineno,
        last_line=node.end_lineno or node.lineno,
        is_jit=any(_last_name(decorator) == JIT for decorator in node.decorator_list),
        executable=frozenset(
            statement.lineno for statement in _statements_below(node.body) if _makes_code(statement, constants)
        ),
        body=tuple(node.body),
        constants=constants,
    )


# --- what was executed -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Conditions:
    """Conditions on constants, and how they came out in the build of a launch."""

    constants: frozenset[str]
    outcomes: dict[str, set[bool]] = field(default_factory=dict[str, set[bool]])
    """By the dumped expression.  A device function may be called with both."""

    def learn_from(self, statement: ast.If, seen: frozenset[int]) -> None:
        """Learn how the condition came out: the build has operations of one of the two ways."""
        if _is_constant(statement.test, self.constants):
            for way, outcome in ((statement.body, True), (statement.orelse, False)):
                if way and not seen.isdisjoint(range(way[0].lineno, (way[-1].end_lineno or 0) + 1)):
                    self._learn(statement.test, outcome=outcome)

    def _learn(self, test: ast.expr, *, outcome: bool) -> None:
        self.outcomes.setdefault(ast.dump(test), set()).add(outcome)
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._learn(operand, outcome=not outcome)
            case ast.BoolOp(op=operator, values=values) if outcome is isinstance(operator, ast.And):
                for value in values:
                    self._learn(value, outcome=outcome)
            case _:
                pass

    def outcomes_of(self, test: ast.expr) -> set[bool]:
        """Return how a condition came out; nothing if that is not known."""
        if known := self.outcomes.get(ast.dump(test)):
            return known
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return {not outcome for outcome in self.outcomes_of(operand)}
            case ast.BoolOp(op=operator, values=values):
                usual = isinstance(operator, ast.And)
                parts = [self.outcomes_of(value) for value in values]
                return {not usual} if {not usual} in parts else set[bool]().union(*parts) if all(parts) else set()
            case _:
                return set()


@dataclass(slots=True)
class _Visit:
    """Collects the first lines of the statements that a launch has executed."""

    seen: frozenset[int]
    conditions: _Conditions
    lines: set[int] = field(default_factory=set[int])

    def suite(self, body: _Statements, *, is_entered: bool = False) -> bool:
        """Visit statements that follow each other; return True if any was executed."""
        reached = [at for at, statement in enumerate(body) if self._is_seen(statement)]
        if not reached and not (is_entered and body):
            return False
        end = reached[-1] + 1 if reached else 1
        while end < len(body) and not _may_return(body[end - 1]):
            end += 1
        for statement in body[:end]:
            self.lines.add(statement.lineno)
            if isinstance(statement, ast.If):
                outcomes = self.conditions.outcomes_of(statement.test)
                for way, outcome in ((statement.body, True), (statement.orelse, False)):
                    if outcome in outcomes:
                        self.suite(way, is_entered=True)
        return True

    def _is_seen(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            return False
        head_end = max((part.end_lineno or 0 for part in _head(statement)), default=statement.lineno)
        is_head_seen = not self.seen.isdisjoint(range(statement.lineno, head_end + 1))
        inside = [self.suite(body) for body in _bodies(statement)]
        return is_head_seen or any(inside)


def _may_return(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Return) for node in ast.walk(statement))


# --- statements ------------------------------------------------------------------------------------------------------


def _head(statement: ast.stmt) -> Sequence[ast.stmt | ast.expr]:
    """Return the parts of a statement that it executes itself."""
    match statement:
        case ast.If(test=test) | ast.While(test=test):
            return (test,)
        case ast.For(target=target, iter=iterable):
            return (target, iterable)
        case ast.With(items=items):
            return tuple(item.context_expr for item in items)
        case _:
            return (statement,)


def _bodies(statement: ast.stmt) -> Sequence[_Statements]:
    match statement:
        case ast.If(body=body, orelse=orelse) | ast.While(body=body, orelse=orelse) | ast.For(body=body, orelse=orelse):
            return (body, orelse)
        case ast.With(body=body):
            return (body,)
        case _:
            return ()


def _statements_below(body: _Statements) -> Iterator[ast.stmt]:
    """Yield all statements of a body, not those of inner functions."""
    for statement in body:
        yield statement
        for inner in _bodies(statement):
            yield from _statements_below(inner)


# --- code and constants ----------------------------------------------------------------------------------------------


def _makes_code(statement: ast.stmt, constants: frozenset[str]) -> bool:
    match statement:
        case ast.FunctionDef() | ast.ClassDef():
            return False
        case ast.AnnAssign(annotation=annotation) if _last_name(annotation) == "constexpr":
            return False
        case ast.AugAssign():
            return not _is_constant(statement.target, constants) or not _is_constant(statement.value, constants)
        case _:
            return any(_computes(part, constants) for part in _head(statement))


def _computes(part: ast.AST, constants: frozenset[str]) -> bool:
    """Return True if an expression, or one in a statement, needs an operation."""
    return any(
        isinstance(node, ast.Call | ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.Subscript)
        and not _is_constant(node, constants)
        for node in ast.walk(part)
    )


def _is_constant(node: ast.AST, constants: frozenset[str]) -> bool:
    """Return True if the compiler knows the value of an expression whatever the arguments of a launch are."""
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name in constants
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
            return True
        case ast.Call(func=func, args=arguments):
            name = _last_name(func)
            return name in WITHOUT_CODE | {UNROLLED} or (
                name in OF_CONSTANTS and all(_is_constant(argument, constants) for argument in arguments)
            )
        case ast.Attribute(value=value, attr=attribute):
            return attribute in OF_TYPES or _is_constant(value, constants)
        case ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.Compare() | ast.IfExp() | ast.Tuple() | ast.Subscript():
            operands = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
            return all(_is_constant(operand, constants) for operand in operands)
        case _:
            return False


def _constants_of(function: ast.FunctionDef) -> frozenset[str]:
    """Return the names that are known when the function is compiled: of the module, of parameters, of variables."""
    parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    variable = {
        each.arg for each in parameters if each.annotation is None or _last_name(each.annotation) != "constexpr"
    }
    assignments = list(_assignments(function.body))
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)} | {each.arg for each in parameters}
    while True:
        constants = frozenset(names - variable)
        found = {name for name, value in assignments if name in constants and not _is_constant(value, constants)}
        if not found:
            return constants
        variable |= found


def _assignments(body: _Statements) -> Iterator[tuple[str, ast.expr]]:
    """Yield each name that is assigned, with the expression that decides its value."""
    for statement in _statements_below(body):
        match statement:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from ((name, part) for name, part in _pairs(target, value))
            case ast.AugAssign(target=target, value=value) | ast.For(target=target, iter=value):
                yield from ((name, value) for name in _names(target))
            case ast.AnnAssign(target=target, value=ast.expr() as value, annotation=annotation):
                if _last_name(annotation) != "constexpr":
                    yield from ((name, value) for name in _names(target))
            case _:
                pass


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for each, part in zip(target.elts, value.elts, strict=True):
            yield from _pairs(each, part)
    else:
        yield from ((name, value) for name in _names(target))


def _names(target: ast.expr) -> Iterator[str]:
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def _last_name(node: ast.expr) -> str:
    """Return `jit` for `triton.jit`, `@jit` and `@triton.jit(…)`."""
    match node:
        case ast.Call(func=func):
            return _last_name(func)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Constant(value=str() as text):
            return text.rpartition(".")[2]
        case _:
            return ""
