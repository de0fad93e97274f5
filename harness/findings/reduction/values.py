"""Literals, their evaluation, and expressions in the place of others."""

import ast
from types import SimpleNamespace
from typing import Any

import libcst as cst

from harness.findings.reduction.tree import Change
from harness.syntax_trees import expression_of

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
    """Return True for a number with or without sign, a string, None, True or False."""
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
    """Return True for a number without sign."""
    return isinstance(value, cst.Integer | cst.Float)


def says_device(argument: cst.Arg) -> bool:
    """Return True for `device=…`: only the emulated GPU would do without."""
    return argument.keyword is not None and argument.keyword.value == "device"


def makes_tensor(call: cst.Call) -> bool:
    """Return True for a call that makes a tensor on the GPU."""
    return any(map(says_device, call.args))


def put_in(value: cst.BaseExpression, holder: cst.CSTNode, child: cst.CSTNode | None = None) -> Change:
    """Return the change that puts a value into `holder`, in parentheses if precedence needs them."""
    return lambda _: fitted(value, holder, child)


def fitted(value: cst.BaseExpression, holder: cst.CSTNode, child: cst.CSTNode | None = None) -> cst.BaseExpression:
    """Return the value with parentheses if `holder` needs them; a later pass drops redundant ones."""
    is_called = isinstance(holder, cst.Call) and holder.func is child
    is_number_with_part = is_number(value) and isinstance(holder, cst.Attribute)
    needs_parentheses = isinstance(value, _OPERATORS) and (isinstance(holder, _BINDS) or is_called)
    if not value.lpar and (needs_parentheses or is_number_with_part):
        return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return value


def computed(code: str) -> cst.BaseExpression | None:
    """Return the value of `not False`, `2 * 4` or `triton.cdiv(7, 4)` as a literal; None for anything else."""
    try:
        tree = ast.Expression(body=expression_of(code))
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
"""No powers, no shifts, and no string times a number: a short text could fill the memory."""
_TRITON = SimpleNamespace(
    cdiv=lambda count, size: -(-count // size), next_power_of_2=lambda number: 1 << (number - 1).bit_length()
)
_KNOWN = {"triton": _TRITON, "tl": _TRITON, "min": min, "max": max}
"""The functions with which host code computes grids and tiles."""
