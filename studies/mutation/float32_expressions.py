"""The expressions of a kernel that are certainly float32 values, judged by its source alone.

A name counts if every value that may reach it is float32: statements are followed in order, branches are joined, and
loops are repeated until nothing changes.  What the source does not decide does not count: parameters, plain loads, and
results of other functions.  Float literals do not count either: next to a bfloat16 value they become bfloat16.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import libcst as cst

from studies.mutation.syntax import is_type, last_name

NEED_FLOAT32 = frozenset({"cos", "div_rn", "erf", "exp", "exp2", "log", "log2", "rsqrt", "sin", "sqrt", "sqrt_rn"})
"""Functions of `tl` that refuse arguments narrower than float32."""
RETURN_FLOAT32 = NEED_FLOAT32 | {"log1p", "sigmoid", "tanh"}
"""Functions that return float32, from any module.

fla's functions of these names widen their argument, and Triton's refuse a narrower one.
"""
KEEP_TYPE = frozenset(
    {"abs", "broadcast_to", "cumsum", "expand_dims", "flip", "permute", "ravel", "reshape", "sum", "trans", "view"}
)
"""Functions and methods whose result has the type of their first argument."""
PROMOTE = frozenset({"fdiv", "maximum", "minimum", "where"})
"""Functions whose result has the widest type of their arguments."""
MODULES = frozenset({"libdevice", "math", "tl", "tldevice"})
ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
IN_PLACE = (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign, cst.DivideAssign)

State = Mapping[str, bool]
"""The names that have a value, and whether it is certainly float32."""


def float32_expressions(function: cst.FunctionDef) -> frozenset[cst.BaseExpression]:
    """Return the expressions of the function whose values are certainly float32."""
    flow = _Flow()
    flow.run(function.body.body, {})
    return frozenset(node for node, is_certain in flow.certain.items() if is_certain)


def called(call: cst.Call) -> tuple[str, tuple[cst.Arg, ...]]:
    """Return the name of the function and its arguments; a method has its object as the first one."""
    match call.func:
        case cst.Attribute(value=value) if not _is_of_module(call):
            return last_name(call.func), (cst.Arg(value=value), *call.args)
        case _:
            return last_name(call.func), tuple(call.args)


class _Flow:
    """Runs statements on what is known of names, and notes what is known of each expression."""

    def __init__(self) -> None:
        self.certain: dict[cst.BaseExpression, bool] = {}
        """The last pass over a loop decides: no later pass knows less."""

    def run(self, statements: Sequence[cst.CSTNode], state: State) -> State:
        """Return what is known after the statements."""
        for statement in statements:
            state = self._after(statement, state)
        return state

    def _after(self, statement: cst.CSTNode, state: State) -> State:
        match statement:
            case cst.SimpleStatementLine(body=body) | cst.With(body=cst.BaseSuite(body=body)):
                return self.run(body, state)
            case cst.If():
                return self._after_branches(statement, state)
            case cst.For(target=target, iter=iterable):
                self._note(iterable, state)
                return self._after_loop(statement.body, {**state, **_unknown(target)})
            case cst.While(test=test):
                state = self._after_loop(statement.body, state)
                self._note(test, state)
                return state
            case _:
                self._note(statement, state)
                return _assigned(statement, state)

    def _after_branches(self, statement: cst.If, state: State) -> State:
        self._note(statement.test, state)
        taken = self.run(statement.body.body, state)
        match statement.orelse:
            case None:
                return _joined(taken, state)
            case cst.If() as other:
                return _joined(taken, self._after_branches(other, state))
            case cst.Else(body=body):
                return _joined(taken, self.run(body.body, state))

    def _after_loop(self, body: cst.BaseSuite, state: State) -> State:
        while (after := _joined(state, self.run(body.body, state))) != state:
            state = after
        return state

    def _note(self, node: cst.CSTNode, state: State) -> None:
        if isinstance(node, cst.BaseExpression):
            self.certain[node] = _is_float32(node, state)
        for child in node.children:
            self._note(child, state)
        if isinstance(node, cst.Call) and _is_of_module(node) and called(node)[0] in NEED_FLOAT32:
            self.certain.update((argument.value, True) for argument in node.args)


def _is_of_module(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and last_name(call.func.value) in MODULES


def _joined(state: State, other: State) -> State:
    """Return what is known if either may hold.  A name without a value in one of them is not read after that one."""
    return {name: state.get(name, True) and other.get(name, True) for name in (*state, *other)}


def _assigned(statement: cst.CSTNode, state: State) -> State:
    match statement:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
            return {**state, name: _is_float32(value, state)}
        case cst.Assign(targets=targets):
            return {**state, **{name: False for target in targets for name in _unknown(target.target)}}
        case cst.AnnAssign(target=target):
            return {**state, **_unknown(target)}
        case cst.AugAssign(target=cst.Name(value=name), operator=operator, value=value):
            either = state.get(name, False) or _is_float32(value, state)
            return {**state, name: either and isinstance(operator, IN_PLACE)}
        case _:
            return state


def _unknown(target: cst.BaseExpression) -> State:
    """Return the names in a target, all of them unknown."""
    match target:
        case cst.Name(value=name):
            return {name: False}
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            return {name: False for element in elements for name in _unknown(element.value)}
        case _:
            return {}


def _is_float32(node: cst.BaseExpression, state: State) -> bool:
    match node:
        case cst.Name(value=name):
            return state.get(name, False)
        case cst.BinaryOperation(left=left, operator=operator, right=right):
            return isinstance(operator, ARITHMETIC) and (_is_float32(left, state) or _is_float32(right, state))
        case cst.UnaryOperation(operator=cst.Minus(), expression=value) | cst.Subscript(value=value):
            return _is_float32(value, state)
        case cst.IfExp(body=body, orelse=orelse):
            return _is_float32(body, state) and _is_float32(orelse, state)
        case cst.Call():
            return _returns_float32(node, lambda value: _is_float32(value, state))
        case _:
            return False


def _returns_float32(call: cst.Call, is_float32: Callable[[cst.BaseExpression], bool]) -> bool:
    name, arguments = called(call)
    values = [argument.value for argument in arguments]
    asks = any(is_type(value, "float32") for value in values)
    match name:
        case "to" | "cast" | "zeros" | "full":
            return asks
        case "dot" | "dot_scaled":
            return _dot_returns_float32(arguments, is_float32)
        case _ if name in RETURN_FLOAT32:
            return True
        case _ if name in KEEP_TYPE:
            return is_float32(values[0]) and not any(_named(arguments, "dtype"))
        case _ if name in PROMOTE:
            return any(map(is_float32, values[1:] if name == "where" else values))
        case _:
            return False


def _dot_returns_float32(arguments: Sequence[cst.Arg], is_float32: Callable[[cst.BaseExpression], bool]) -> bool:
    """Return True if the accumulator and the type asked for, where there are such, are float32.

    Products of 8-bit integers are int32, but kernels ask for that by name.
    """
    positional = [argument.value for argument in arguments[2:3] if argument.keyword is None]
    accumulators = (*positional, *_named(arguments, "acc"))
    return all(map(is_float32, accumulators)) and all(
        is_type(value, "float32") for value in _named(arguments, "out_dtype")
    )


def _named(arguments: Sequence[cst.Arg], keyword: str) -> Iterator[cst.BaseExpression]:
    return (argument.value for argument in arguments if argument.keyword and argument.keyword.value == keyword)
