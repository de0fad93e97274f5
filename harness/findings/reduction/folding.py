"""Passes that fold constants: values of literals, and branches that literals decide."""

from collections.abc import Sequence

import libcst as cst

from harness.findings.reduction.tree import Edit, Replacement, Tree, replacement
from harness.findings.reduction.values import computed, fitted, is_literal

_COMPUTABLE = cst.BinaryOperation | cst.BooleanOperation | cst.UnaryOperation | cst.Comparison | cst.Call


def fold_literals(tree: Tree) -> Sequence[Edit]:
    """Replace expressions of literals by their value: 2 for `triton.cdiv(70, 64)`."""
    edits: list[Edit] = []
    for node in tree.all(cst.BaseExpression):
        value = computed(tree.code(node)) if isinstance(node, _COMPUTABLE) else None
        if value is not None:
            edits.append(replacement(node, lambda _, value=value: value))
    return edits


def decide_branches(tree: Tree) -> Sequence[Edit]:
    """Replace an `if` that literals decide by the branch that is taken."""
    edits: list[Edit] = []
    for node in tree.nodes:
        if isinstance(node, cst.If):
            truth = _truth(tree, node.test)
            is_branch = isinstance(tree.parent(node), cst.If)
            if truth is not None:
                edits.append(
                    replacement(node, lambda block, t=truth, b=is_branch: _taken(block, is_true=t, is_branch=b))
                )
        elif isinstance(node, cst.IfExp):
            truth = _truth(tree, node.test)
            holder = tree.parent(node)
            if truth is not None:
                edits.append(replacement(node, lambda c, t=truth, h=holder: fitted(c.body if t else c.orelse, h)))
    return edits


def _truth(tree: Tree, test: cst.BaseExpression) -> bool | None:
    value = test if is_literal(test) else computed(tree.code(test))
    match value:
        case cst.Name(value=name):
            return name == "True"
        case cst.Integer(value=digits):
            return digits != "0"
        case _:
            return None


def _taken(block: cst.If, *, is_true: bool, is_branch: bool) -> Replacement:
    """Return what remains of a decided `if`; for an `elif`, a branch of the `if` around it."""
    if is_branch:
        return cst.Else(body=block.body) if is_true else block.orelse or cst.RemoveFromParent()
    if is_true:
        return cst.FlattenSentinel(block.body.body)
    match block.orelse:
        case None:
            return cst.RemoveFromParent()
        case cst.Else(body=body):
            return cst.FlattenSentinel(body.body)
        case cst.If() as other:
            return other
