"""The domain of a function as its source states it: shapes in its docstring, and its checks of arguments.

Checks are `assert`, `torch._check`, and `if … : raise`.  They hold for sure.  What a docstring says is a guess, since
its words are free.  Nothing is imported or executed.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.syntax_trees import expression_of

AxisOf = tuple[str, int]
"""An axis of a tensor: its parameter and its index, which may be negative."""
ENTRY = re.compile(
    r"^(?P<indent> *)[*`]*(?P<name>[A-Za-z_]\w*)[*`]* *(?:\((?P<kind>[^()]*(?:\([^()]*\)[^()]*)*)\))? *:(?P<text>.*)$"
)
"""The first line of what a docstring says of a parameter."""
NUMBER_OR_NAME = r"(?:[A-Za-z_]\w*|\d+|\.\.\.)"
EXTENT = rf"{NUMBER_OR_NAME}(?: *(?://|[*+-]) *{NUMBER_OR_NAME})*"
SHAPE = re.compile(rf"[\[(] *({EXTENT}(?: *, *{EXTENT})*) *,? *[\])]")
SHAPE_WORD = re.compile(r"shape|size|tensor", re.IGNORECASE)
NO_EXTENTS = frozenset(
    {"optional", "default", "int", "float", "bool", "str", "torch", "none", "true", "false", "tensor"}
)
ELEMENTS = re.compile(r"(?:torch\.|dtype\W+|of type )`?(float(?:16|32|64)|bfloat16|u?int8|int(?:16|32|64)|bool)\b")
INTEGER_TENSORS = {"LongTensor": "int64", "IntTensor": "int32", "BoolTensor": "bool"}
BELOW = re.compile(r"\[ *0 *, *([A-Za-z_]\w*) *(?:\)|- *1 *\])")
LOGARITHM = re.compile(r"log[ -]?space|log[ -](?:decay|forget|gate)|logsigmoid", re.IGNORECASE)
UNIT = re.compile(r"(?:in|within|range) `?[\[(] *0(?:\.0)? *, *1(?:\.0)? *[\])]|between 0 and 1", re.IGNORECASE)
OPERATORS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeCheck:
    """A check of one size: `K % 16 == 0`, `K <= 256`, `K == V`."""

    left: AxisOf
    modulus: int = 0
    """0 if the size itself is compared."""
    operator: str
    right: int | AxisOf
    guard: str = ""
    """The optional parameter with which alone it holds; empty if it always does."""
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedDomain:
    """What the source of a function says of its arguments, each by parameter."""

    shapes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Names of axes, from the docstring."""
    optional: frozenset[str] = frozenset()
    """Those that the docstring calls optional."""
    elements: Mapping[str, str] = field(default_factory=dict[str, str])
    """Element types by the docstring, as torch names them."""
    below: Mapping[str, str] = field(default_factory=dict[str, str])
    """The limit of integers, exclusive, by the docstring."""
    draws: Mapping[str, str] = field(default_factory=dict[str, str])
    """Members of `Draw` by the docstring."""
    contiguous: Mapping[str, str] = field(default_factory=dict[str, str])
    """As a suite declares it, from checks and the docstring."""
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Element types that are checked."""
    ranks: Mapping[str, int] = field(default_factory=dict[str, int])
    """Numbers of axes that are checked."""
    choices: Mapping[AxisOf | str, tuple[int | str, ...]] = field(
        default_factory=dict[AxisOf | str, tuple[int | str, ...]]
    )
    """Values of sizes and of parameters that are checked."""
    checks: tuple[SizeCheck, ...] = ()
    scalars: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parameters that the function uses as no tensor: `bool` for one whose truth it asks for, else an empty text."""


def stated_domain(function: ast.FunctionDef) -> StatedDomain:
    """Return what the function states of its arguments."""
    declared = function.args
    parameters = {argument.arg for argument in (*declared.posonlyargs, *declared.args, *declared.kwonlyargs)}
    reader = _CheckReader(parameters, dict(_sizes(function)))
    for condition, guard in _conditions(function.body, parameters, ""):
        reader.read(condition, guard)
    entries = dict(_entries(ast.get_docstring(function) or "", parameters))
    contiguous = {name: "True" for name, text in entries.items() if re.search(r"(?<!non-)\bcontiguous", text)}
    return StatedDomain(
        shapes={name: shape for name, text in entries.items() if (shape := _shape(text))},
        optional=frozenset(name for name, text in entries.items() if "ptional" in text),
        elements={name: kind for name, text in entries.items() if (kind := _elements(text))},
        below={name: found[1] for name, text in entries.items() if (found := BELOW.search(text))},
        draws={name: draw for name, text in entries.items() if (draw := _draw(text))},
        contiguous={**contiguous, **reader.contiguous},
        types=reader.types,
        ranks=reader.ranks,
        choices=reader.choices,
        checks=tuple(reader.checks),
        scalars=_scalars(function, parameters),
    )


# --- docstrings ------------------------------------------------------------------------------------------------------


def _entries(docstring: str, parameters: set[str]) -> Iterator[tuple[str, str]]:
    """Yield each parameter with what the docstring says of it, on one line."""
    lines = docstring.expandtabs().splitlines()
    starts = [(number, found) for number, line in enumerate(lines) if (found := ENTRY.match(line))]
    starts = [(number, found) for number, found in starts if found["name"] in parameters]
    for number, found in starts:
        indent = len(found["indent"])
        parts = [found["kind"] or "", found["text"]]
        for line in lines[number + 1 :]:
            if not line.strip() or len(line) - len(line.lstrip()) <= indent:
                break
            parts.append(line.strip())
        yield found["name"], " ".join(parts)


def _shape(text: str) -> tuple[str, ...]:
    """Return the first shape in a text: `[B, T, H, K]`; one of a single axis counts only after a word for it."""
    for found in SHAPE.finditer(text):
        extents = tuple(extent.replace(" ", "") for extent in found[1].split(","))
        words = {word.lower() for extent in extents for word in re.findall(r"[A-Za-z_]\w*", extent)}
        if words & NO_EXTENTS or not words or extents[0] == "0":  # a range is no shape
            continue
        if len(extents) > 1 or SHAPE_WORD.search(text[: found.start()]):
            return extents
    return ()


def _elements(text: str) -> str:
    by_class = (kind for name, kind in INTEGER_TENSORS.items() if name in text)
    found = ELEMENTS.search(text)
    return next(by_class, found[1] if found else "")


def _draw(text: str) -> str:
    if LOGARITHM.search(text):
        return "LOG_UNIT"
    return "UNIT" if UNIT.search(text) else ""


# --- checks ----------------------------------------------------------------------------------------------------------


def _conditions(body: list[ast.stmt], parameters: set[str], guard: str) -> Iterator[tuple[ast.expr, str]]:
    """Yield the conditions that hold where the function goes on, each with the optional parameter that it needs."""
    for statement in body:
        match statement:
            case ast.Assert(test=test):
                yield from ((part, guard) for part in _conjuncts(test))
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="_check"), args=[test, *_])):
                yield from ((part, guard) for part in _conjuncts(test))
            case ast.If(test=test, body=[*_, ast.Raise()], orelse=[]):
                yield from ((_opposite(part), guard) for part in _disjuncts(test))
                if not guard and (name := _given(test)) in parameters:
                    yield from _conditions(statement.body, parameters, name)
            case ast.If(test=test) if not guard and (name := _given(test)) in parameters:
                yield from _conditions(statement.body, parameters, name)
            case _:
                pass


def _given(test: ast.expr) -> str:
    """Return the name of which a condition says that it is not None."""
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return name
        case _:
            return ""


def _conjuncts(test: ast.expr) -> Iterator[ast.expr]:
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            for value in values:
                yield from _conjuncts(value)
        case ast.BoolOp(
            op=ast.Or(), values=[ast.Compare(ops=[ast.Is()], comparators=[ast.Constant(value=None)]), rest]
        ):
            yield rest
        case ast.Call(func=ast.Name(id="all"), args=[ast.GeneratorExp() as every]):
            yield from _each(every)
        case _:
            yield test


def _disjuncts(test: ast.expr) -> Iterator[ast.expr]:
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            for value in values:
                yield from _disjuncts(value)
        case _:
            yield test


def _each(every: ast.GeneratorExp) -> Iterator[ast.expr]:
    """Yield the condition of `all(… for x in (q, k))` for each of the names."""
    match every.generators:
        case [ast.comprehension(target=ast.Name(id=variable), iter=ast.Tuple(elts=names) | ast.List(elts=names))]:
            for name in names:
                yield _Renamed(variable, name).visit(expression_of(ast.unparse(every.elt)))
        case _:
            pass


class _Renamed(ast.NodeTransformer):
    """Puts an expression in the place of a name."""

    def __init__(self, name: str, expression: ast.expr) -> None:
        self._name, self._expression = name, expression

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._expression if node.id == self._name else node


def _opposite(test: ast.expr) -> ast.expr:
    """Return the negated condition; one that is not understood stays as a negation."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in OPERATORS:
            return ast.copy_location(
                ast.Compare(left=left, ops=[_operator(OPPOSITES[OPERATORS[type(operator)]])], comparators=[right]), test
            )
        case ast.Compare(left=left, ops=[ast.NotIn()], comparators=[right]):
            return ast.copy_location(ast.Compare(left=left, ops=[ast.In()], comparators=[right]), test)
        case _:
            return ast.copy_location(ast.UnaryOp(op=ast.Not(), operand=test), test)


def _operator(text: str) -> ast.cmpop:
    return next(kind() for kind, spelled in OPERATORS.items() if spelled == text)


def _sizes(function: ast.FunctionDef) -> Iterator[tuple[str, AxisOf]]:
    """Yield the local names of sizes: `T, D = x.shape`, `K = q.shape[-1]`, `B, T, H, K, V = *k.shape, v.shape[-1]`."""
    for part in ast.walk(function):
        match part:
            case ast.Assign(
                targets=[ast.Tuple(elts=names)], value=ast.Attribute(value=ast.Name(id=tensor), attr="shape")
            ):
                yield from ((name.id, (tensor, axis)) for axis, name in enumerate(names) if isinstance(name, ast.Name))
            case ast.Assign(
                targets=[ast.Tuple(elts=names)],
                value=ast.Tuple(
                    elts=[ast.Starred(value=ast.Attribute(value=ast.Name(id=tensor), attr="shape")), *rest]
                ),
            ):
                count = len(names) - len(rest)
                found = [*((tensor, axis) for axis in range(count)), *map(_axis_of, rest)]
                pairs = zip(names, found, strict=True)
                yield from ((name.id, axis) for name, axis in pairs if isinstance(name, ast.Name) and axis)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if axis := _axis_of(value):
                yield name, axis
            case _:
                pass


def _axis_of(node: ast.expr) -> AxisOf | None:
    """Return the axis whose size an expression is: `x.shape[-1]`, `x.size(0)`, `len(x)`."""
    match node:
        case (
            ast.Subscript(value=ast.Attribute(value=ast.Name(id=tensor), attr="shape"), slice=index)
            | ast.Call(func=ast.Attribute(value=ast.Name(id=tensor), attr="size"), args=[index])
        ):
            number = _number(index)
            return None if number is None else (tensor, number)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=tensor)]):
            return tensor, 0
        case _:
            return None


def _number(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) is int else None


def _scalars(function: ast.FunctionDef, parameters: set[str]) -> dict[str, str]:
    """Return the parameters that are asked for their truth or class, or looked up; no attribute of them is used."""
    found, tensors = dict[str, str](), set[str]()
    for part in ast.walk(function):
        match part:
            case ast.Attribute(value=ast.Name(id=name)) | ast.Subscript(value=ast.Name(id=name)):
                tensors.add(name)
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kinds]):
                if "Tensor" not in ast.unparse(kinds):
                    found[name] = ""
            case ast.Compare(left=ast.Name(id=name), ops=[ast.In() | ast.NotIn()]):
                found[name] = ""
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=bool())]
            ):
                found[name] = "bool"
            case ast.If(test=test) | ast.IfExp(test=test) | ast.UnaryOp(op=ast.Not(), operand=test):
                asked = test.values if isinstance(test, ast.BoolOp) else [test]
                found |= {one.id: "bool" for one in asked if isinstance(one, ast.Name)}
            case _:
                pass
    return {name: kind for name, kind in found.items() if name in parameters - tensors}


class _CheckReader:
    """Collects what conditions say."""

    def __init__(self, parameters: set[str], sizes: Mapping[str, AxisOf]) -> None:
        self._parameters, self._sizes = parameters, sizes
        self.contiguous: dict[str, str] = {}
        self.types: dict[str, tuple[str, ...]] = {}
        self.ranks: dict[str, int] = {}
        self.choices: dict[AxisOf | str, tuple[int | str, ...]] = {}
        self.checks: list[SizeCheck] = []

    def read(self, condition: ast.expr, guard: str) -> None:
        match condition:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=tensor), attr="is_contiguous"), args=[]):
                self.contiguous[tensor] = "True"
            case ast.Compare(left=left, ops=[ast.In()], comparators=[values]):
                self._read_choices(left, values, guard)
            case ast.Compare(left=left, ops=operators, comparators=rights):
                for one, operator, other in zip([left, *rights], operators, rights, strict=False):
                    if type(operator) in OPERATORS:
                        self._read_comparison(one, OPERATORS[type(operator)], other, guard, condition.lineno)
            case _:
                pass

    def _read_choices(self, left: ast.expr, values: ast.expr, guard: str) -> None:
        if not isinstance(values, ast.Tuple | ast.List | ast.Set):
            return
        if isinstance(left, ast.Attribute) and left.attr == "dtype":
            self._read_types(left, values.elts)
            return
        literal = [value.value for value in values.elts if isinstance(value, ast.Constant)]
        chosen = tuple(value for value in literal if isinstance(value, int | str) and not isinstance(value, bool))
        subject = self._size(left) or (left.id if isinstance(left, ast.Name) else "")
        if subject and len(chosen) == len(values.elts) and not guard:
            self.choices[subject] = chosen

    def _read_types(self, left: ast.Attribute, values: list[ast.expr]) -> None:
        kinds = tuple(value.attr for value in values if isinstance(value, ast.Attribute))
        if isinstance(left.value, ast.Name) and len(kinds) == len(values) and "dtype" not in kinds:
            self.types[left.value.id] = kinds

    def _read_comparison(self, left: ast.expr, operator: str, right: ast.expr, guard: str, line: int) -> None:
        match left, right:
            case ast.Attribute(attr="dtype"), ast.Attribute() if operator == "==":
                self._read_types(left, [right])
                return
            case ast.Call(func=ast.Attribute(value=ast.Name(id=tensor), attr="stride")), ast.Constant(value=1):
                self.contiguous.setdefault(tensor, '"rows"')
                return
            case (
                (
                    ast.Call(func=ast.Attribute(value=ast.Name(id=tensor), attr="dim"))
                    | ast.Attribute(value=ast.Name(id=tensor), attr="ndim")
                    | ast.Call(func=ast.Name(id="len"), args=[ast.Attribute(value=ast.Name(id=tensor), attr="shape")])
                ),
                ast.Constant(value=int(rank)),
            ) if operator == "==":
                self.ranks[tensor] = rank
                return
            case _:
                pass
        if self._size(left) is None and self._modulus(left) is None:
            left, operator, right = right, MIRRORED[operator], left
        size, modulus = self._modulus(left) or (self._size(left), 0)
        other = self._size(right)
        compared = _number(right) if other is None else other
        if size and compared is not None:
            self.checks.append(
                SizeCheck(left=size, modulus=modulus, operator=operator, right=compared, guard=guard, line=line)
            )

    def _size(self, node: ast.expr) -> AxisOf | None:
        axis = self._sizes.get(node.id) if isinstance(node, ast.Name) else _axis_of(node)
        return axis if axis and axis[0] in self._parameters else None

    def _modulus(self, node: ast.expr) -> tuple[AxisOf, int] | None:
        match node:
            case ast.BinOp(left=left, op=ast.Mod(), right=ast.Constant(value=int(modulus))) if size := self._size(left):
                return size, modulus
            case _:
                return None
