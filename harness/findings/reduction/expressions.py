"""Passes over expressions: a part of one instead of the whole, and what calls can do without."""

from collections.abc import Callable, Sequence
from typing import Any

import libcst as cst

from harness.findings.reduction.parameters import called_name
from harness.findings.reduction.tree import Edit, Replacement, Tree, removal, replacement
from harness.findings.reduction.values import fitted, makes_tensor, says_device

_SHAPING = frozenset({"dot", "trans", "sum", "max", "min", "expand_dims", "broadcast_to", "reshape", "view", "permute"})
MOST_ARGUMENTS = 4
"""Of a call, how many are tried in its place."""


def drop_keywords(tree: Tree) -> Sequence[Edit]:
    """Calls without one of their keyword arguments: masks, axes, `num_warps`; but tensors stay on the GPU."""
    arguments = [argument for argument in reversed(tree.all(cst.Arg)) if argument.keyword or argument.star]
    return [removal(argument) for argument in arguments if not says_device(argument)]


def drop_last_arguments(tree: Tree) -> Sequence[Edit]:
    """Calls of other functions than the file's own without an argument by position, the last first."""
    own = {function.name.value for function in tree.functions}
    return [
        removal(argument)
        for call in reversed(tree.all(cst.Call))
        if called_name(call) not in own
        for argument in reversed(call.args[1:])
        if argument.keyword is None and not _moves(tree, call)
    ]


def take_receivers(tree: Tree) -> Sequence[Edit]:
    """`x` instead of `x.to(…)`, and of any other method called on a value."""

    def receiver(call: cst.Call) -> cst.BaseExpression | None:
        if not isinstance(call.func, cst.Attribute) or _is_module(tree, call.func.value) or _moves(tree, call):
            return None
        return call.func.value

    return _instead(tree, cst.Call, receiver)


def take_subscripted(tree: Tree) -> Sequence[Edit]:
    """`x` instead of `x[:, None]`; a launch keeps its grid."""
    own = {function.name.value for function in tree.functions}

    def subscripted(node: cst.Subscript) -> cst.BaseExpression | None:
        is_launch = isinstance(node.value, cst.Name) and node.value.value in own
        return None if is_launch else node.value

    return _instead(tree, cst.Subscript, subscripted)


def drop_dimension(place: int) -> Callable[[Tree], Sequence[Edit]]:
    """The pass that makes the tiles of a function one-dimensional: no `[:, None]`, and an operand for `tl.dot`."""

    def offer(tree: Tree) -> Sequence[Edit]:
        products, bare = take_argument(place)(tree), take_subscripted(tree)
        edits: list[Edit] = []
        for function in tree.functions:
            changes = {
                node: change
                for edit in (*products, *bare)
                for node, change in edit.changes.items()
                if function in tree.around(node) and (isinstance(node, cst.Subscript) or _shapes(node))
            }
            edits.append(Edit(changes=changes))
        return edits

    return offer


def take_left(tree: Tree) -> Sequence[Edit]:
    """The left operand, or the operand of a sign."""
    return [
        *_instead(tree, cst.BinaryOperation, lambda node: node.left),
        *_instead(tree, cst.BooleanOperation, lambda node: node.left),
        *_instead(tree, cst.UnaryOperation, lambda node: node.expression),
    ]


def take_right(tree: Tree) -> Sequence[Edit]:
    """The right operand."""
    return [
        *_instead(tree, cst.BinaryOperation, lambda node: node.right),
        *_instead(tree, cst.BooleanOperation, lambda node: node.right),
    ]


def take_then(tree: Tree) -> Sequence[Edit]:
    """`a` instead of `a if c else b`, and what a lambda returns instead of the lambda."""
    return [*_instead(tree, cst.IfExp, lambda node: node.body), *_instead(tree, cst.Lambda, lambda node: node.body)]


def take_otherwise(tree: Tree) -> Sequence[Edit]:
    """`b` instead of `a if c else b`."""
    return _instead(tree, cst.IfExp, lambda node: node.orelse)


def take_argument(place: int) -> Callable[[Tree], Sequence[Edit]]:
    """The pass that tries an argument instead of its call: the branches of `tl.where`, what `tl.sum` sums."""
    count = place + 1

    def offer(tree: Tree) -> Sequence[Edit]:
        def argument(call: cst.Call) -> cst.BaseExpression | None:
            is_launch = isinstance(call.func, cst.Subscript)
            return None if is_launch or makes_tensor(call) or len(call.args) < count else call.args[place].value

        return _instead(tree, cst.Call, argument)

    return offer


def drop_elements(tree: Tree) -> Sequence[Edit]:
    """Tuples, lists, sets and dictionaries with an element less, the last first; grids and shapes keep their first."""
    firsts = {node.elements[0] for node in tree.all(cst.Tuple) if node.elements}
    parts = [node for node in reversed(tree.nodes) if isinstance(node, cst.Element | cst.DictElement)]
    return [removal(part) for part in parts if part not in firsts]


def drop_first_elements(tree: Tree) -> Sequence[Edit]:
    """Tuples without the first of several elements."""
    return [removal(node.elements[0]) for node in tree.all(cst.Tuple) if len(node.elements) > 1]


def drop_parentheses(tree: Tree) -> Sequence[Edit]:
    """Expressions without their parentheses."""
    inside = [node for node in tree.all(cst.BaseExpression) if node.lpar and not isinstance(node, cst.Tuple)]
    return [replacement(node, lambda value: value.with_changes(lpar=[], rpar=[])) for node in inside]


def _instead(tree: Tree, kind: type[cst.CSTNode], choose: Callable[[Any], cst.BaseExpression | None]) -> list[Edit]:
    edits: list[Edit] = []
    for node in tree.all(kind):
        if choose(node) is not None:
            holder = tree.parent(node)

            def change(updated: cst.CSTNode, holder: cst.CSTNode = holder, node: cst.CSTNode = node) -> Replacement:
                part = choose(updated)
                return updated if part is None else fitted(part, holder, node)

            edits.append(replacement(node, change))
    return edits


def _moves(tree: Tree, call: cst.Call) -> bool:
    """Whether a call puts a tensor on the GPU: a pretended GPU does without, a real one does not."""
    if not isinstance(call.func, cst.Attribute):
        return False
    is_to = call.func.attr.value == "to" and any(word in tree.code(call) for word in ("cuda", "device"))
    return is_to or call.func.attr.value == "cuda"


def _shapes(node: cst.CSTNode) -> bool:
    """Whether it is a call that makes a tile of other dimensions than its operands'."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _SHAPING


def _is_module(tree: Tree, value: cst.BaseExpression) -> bool:
    while isinstance(value, cst.Attribute):
        value = value.value
    return isinstance(value, cst.Name) and value.value in tree.imported
