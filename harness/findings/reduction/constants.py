"""Passes that replace computed values by literals, and large numbers by smaller ones."""

from collections.abc import Callable, Sequence

import libcst as cst

from harness.findings.reduction.tree import Change, Edit, NameRole, Tree, remove, replacement
from harness.findings.reduction.values import makes_tensor, put_in

EXTENTS = (1, 2, 4, 16, 64, 256)
"""The replacements of integers: usual extents of blocks; 16 is the least that `tl.dot` takes."""


def calls_become(literal: str) -> Callable[[Tree], Sequence[Edit]]:
    """Return the pass that replaces a call whose value is used by a number."""

    def offer(tree: Tree) -> Sequence[Edit]:
        calls = [call for call in tree.all(cst.Call) if not isinstance(tree.parent(call), cst.Expr | cst.Decorator)]
        calls = [call for call in calls if not makes_tensor(call)]
        return [replacement(call, put_in(_number(literal), tree.parent(call))) for call in calls]

    return offer


def variables_become(literal: str) -> Callable[[Tree], Sequence[Edit]]:
    """Return the pass that replaces a variable and its subscripts by a number: `0.0` for `b_mean[:, None]`."""

    def offer(tree: Tree) -> Sequence[Edit]:
        edits: list[Edit] = []
        for function in tree.functions:
            loads = tree.names(function, NameRole.LOAD)
            for name, stores in tree.names(function, NameRole.STORE).items():
                lines = [line for store in stores if (line := defining_line(tree, store)) is not None]
                if len(lines) == len(stores):
                    changes: dict[cst.CSTNode, Change] = {}
                    for load in loads.get(name, ()):
                        whole = _chain(tree, load)
                        changes[whole] = put_in(_number(literal), tree.parent(whole))
                    edits.append(Edit(changes=dict.fromkeys(lines, remove) | changes))
        return edits[::-1]

    return offer


def shrink_to(number: int) -> Callable[[Tree], Sequence[Edit]]:
    """Return the pass that replaces larger integers by this number."""

    def offer(tree: Tree) -> Sequence[Edit]:
        larger = [node for node in tree.all(cst.Integer) if node.evaluated_value > number]
        return [replacement(node, _becomes(str(number))) for node in larger]

    return offer


def halve(tree: Tree) -> Sequence[Edit]:
    """Replace integers above 2 by the next smaller power of two."""
    larger = [node for node in tree.all(cst.Integer) if node.evaluated_value > 2]
    halves = [2 ** ((node.evaluated_value - 1).bit_length() - 1) for node in larger]
    return [replacement(node, _becomes(str(half))) for node, half in zip(larger, halves, strict=True)]


def plain_fractions(tree: Tree) -> Sequence[Edit]:
    """Replace fractions by 1.0."""
    fractions = [node for node in tree.all(cst.Float) if node.evaluated_value not in {0.0, 1.0}]
    return [replacement(node, _becomes("1.0")) for node in fractions]


def defining_line(tree: Tree, store: cst.Name) -> cst.SimpleStatementLine | None:
    """Return the line that only assigns this variable: `v = …`, `v: T = …`, `v += …`."""
    line = tree.statement(store)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    match line.body[0]:
        case cst.Assign(targets=[cst.AssignTarget(target=target)]) if target is store:
            return line
        case cst.AnnAssign(target=target) | cst.AugAssign(target=target) if target is store:
            return line
        case _:
            return None


def _chain(tree: Tree, load: cst.Name) -> cst.BaseExpression:
    """Return the name with the attributes, calls and subscripts that follow it."""
    whole: cst.BaseExpression = load
    while True:
        holder = tree.parent(whole)
        match holder:
            case cst.Attribute(value=part) | cst.Subscript(value=part) | cst.Call(func=part) if part is whole:
                whole = holder
            case _:
                return whole


def _becomes(literal: str) -> Change:
    return lambda _: _number(literal)


def _number(literal: str) -> cst.BaseExpression:
    return cst.parse_expression(literal)
