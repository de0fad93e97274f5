"""What expressions are worth: literals, and how one expression is put in the place of another."""

import ast
from types import SimpleNamespace
from typing import Any

import libcst as cst

from harness.findings.reduction.tree import Change

SPECIAL = frozenset({"None", "True", "False"})
_OPERATORS = (
    cst.BinaryOperation,
    cst.UnaryOperation,
    cst.BooleanOperation,
    cst.Comparison,
    cst.IfExp,
    cst.Lambda,
    cst.NamedExpr,
    cst.Await,
)
_BINDS = (*_OPERATORS, cst.ComparisonTarget, cst.Attribute, cst.Subscript)


def is_literal(value: cst.BaseExpression) -> bool:
    """Whether it is a number, with or without a sign, a string, None, True or False."""
    match value:
        case cst.Integer() | cst.Float() | cst.SimpleString():
            return True
        case cst.Name(value=name):
            return name in SPECIAL
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer() | cst.Float()):
            return True
        case _:
            return False


def is_number(value: cst.BaseExpression) -> bool:
    """Whether it is a number without a sign."""
    return isinstance(value, cst.Integer | cst.Float)


def says_device(argument: cst.Arg) -> bool:
    """Whether it is the argument that puts a tensor on the GPU: a pretended GPU does without, a real one does not."""
    return argument.keyword is not None and argument.keyword.value == "device"


def makes_tensor(call: cst.Call) -> bool:
    """Whether a call makes a tensor on the GPU."""
    return any(map(says_device, call.args))


def put_in(value: cst.BaseExpression, holder: cst.CSTNode, child: cst.CSTNode | None = None) -> Change:
    """Puts a value where another expression stands in `holder`, in parentheses where operators would tear it apart."""
    return lambda _: fitted(value, holder, child)


def fitted(value: cst.BaseExpression, holder: cst.CSTNode, child: cst.CSTNode | None = None) -> cst.BaseExpression:
    """The value as it may stand in `holder`, in place of `child`; parentheses too many are dropped later."""
    is_called = isinstance(holder, cst.Call) and holder.func is child
    is_number_with_part = is_number(value) and isinstance(holder, cst.Attribute)
    tears = isinstance(value, _OPERATORS) and (isinstance(holder, _BINDS) or is_called)
    if not value.lpar and (tears or is_number_with_part):
        return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return value


def computed(code: str) -> cst.BaseExpression | None:
    """The literal that `not False`, `2 * 4` or `triton.cdiv(7, 4)` comes to; None for all else."""
    try:
        tree = ast.parse(code, mode="eval")
        nodes = list(ast.walk(tree))
        has_text = any(isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) for node in nodes)
        if not all(isinstance(node, _COMPUTED) and not (has_text and isinstance(node, ast.BinOp)) for node in nodes):
            return None
        value: Any = eval(compile(tree, "literals", "eval"), {"__builtins__": {}}, _KNOWN)  # noqa: S307 - see _COMPUTED
    except (SyntaxError, ArithmeticError, AttributeError, NameError, TypeError, ValueError):
        return None
    match value:
        case bool() | None:
            return cst.Name(str(value))
        case int() if 0 <= value <= 2**62:
            return cst.Integer(str(value))
        case _:
            return None


_COMPUTED = (
    ast.Expression,
    ast.Constant,
    ast.BinOp,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.FloorDiv,
    ast.Mod,
    ast.BoolOp,
    ast.boolop,
    ast.UnaryOp,
    ast.unaryop,
    ast.Compare,
    ast.cmpop,
    ast.Call,
    ast.Attribute,
    ast.Name,
    ast.expr_context,
)
"""No powers and no shifts, and nothing times a text: a few letters of those fill the memory."""
_TRITON = SimpleNamespace(
    cdiv=lambda count, size: -(-count // size), next_power_of_2=lambda number: 1 << (number - 1).bit_length()
)
_KNOWN = {"triton": _TRITON, "tl": _TRITON, "min": min, "max": max}
"""What host code reckons grids and tiles with."""
