"""Questions that the mutation rules ask about the syntax of kernels, and parentheses for what they build."""

import libcst as cst

ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer)
"""Expressions that need no parentheses next to any operator."""


def triton_function(call: cst.Call) -> str:
    """Return `load` for `tl.load(…)`; empty if the call is not to `tl`."""
    match call.func:
        case cst.Attribute(value=cst.Name(value="tl"), attr=cst.Name(value=name)):
            return name
        case _:
            return ""


def is_type(node: cst.CSTNode, name: str) -> bool:
    """Return True for `tl.float32`, if that is the name."""
    match node:
        case cst.Attribute(value=cst.Name(value="tl"), attr=cst.Name(value=attribute)):
            return attribute == name
        case _:
            return False


def last_name(node: cst.BaseExpression) -> str:
    """Return `cdiv` for `cdiv` and for `triton.cdiv`; empty for anything else."""
    match node:
        case cst.Attribute(attr=cst.Name(value=name)) | cst.Name(value=name):
            return name
        case _:
            return ""


def atom(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression, in parentheses unless any operator may stand next to it."""
    return node if isinstance(node, ATOMS) or node.lpar else parenthesised(node)


def parenthesised(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression in parentheses."""
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
