"""Passes over expressions: replace one by a part of it, and drop arguments and elements."""

from collections.abc import Callable, Sequence
from typing import Any

import libcst as cst

from harness.findings.reduction.parameters import called_name
from harness.findings.reduction.tree import Edit, Replacement, Tree, removal, replacement
from harness.findings.reduction.values import fitted, makes_tensor, says_device

_SHAPING = frozenset({"dot", "trans", "sum", "max", "min", "expand_dims", "broadcast_to", "reshape", "view", "permute"})
MOST_ARGUMENTS = 4
"""The number of arguments that are tried in the place of their call."""


def drop_keywords(tree: Tree) -> Sequence[Edit]:
    """Drop a keyword argument of a call: masks, axes, `num_warps`; `device` stays."""
    arguments = [argument for argument in reversed(tree.all(cst.Arg)) if argument.keyword or argument.star]
    return [removal(argument) for argument in arguments if not says_device(argument)]


def drop_last_arguments(tree: Tree) -> Sequence[Edit]:
    """Drop a positional argument of a call, the last first; calls of the file's own functions keep theirs."""
    own = {function.name.value for function in tree.functions}
    return [
        removal(argument)
        for call in reversed(tree.all(cst.Call))
        if called_name(call) not in own
        for argument in reversed(call.args[1:])
        if argument.keyword is None and not _moves(tree, call)
    ]


def take_receivers(tree: Tree) -> Sequence[Edit]:
    """Replace a method call by its receiver: `x` for `x.to(…)`."""

    def receiver(call: cst.Call) -> cst.BaseExpression | None:
        if not isinstance(call.func, cst.Attribute) or _is_module(tree, call.func.value) or _moves(tree, call):
            return None
        return call.func.value

    return _instead(tree, cst.Call, receiver)


def take_subscripted(tree: Tree) -> Sequence[Edit]:
    """Replace `x[:, None]` by `x`; a launch keeps its grid."""
    own = {function.name.value for function in tree.functions}

    def subscripted(node: cst.Subscript) -> cst.BaseExpression | None:
        is_launch = isinstance(node.value, cst.Name) and node.value.value in own
        return None if is_launch else node.value

    return _instead(tree, cst.Subscript, subscripted)


def drop_dimension(place: int) -> Callable[[Tree], Sequence[Edit]]:
    """Return the pass that makes tiles one-dimensional: it drops `[:, None]` and replaces `tl.dot` by an operand."""

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
    """Replace an operation by its left or only operand."""
    return [
        *_instead(tree, cst.BinaryOperation, lambda node: node.left),
        *_instead(tree, cst.BooleanOperation, lambda node: node.left),
        *_instead(tree, cst.UnaryOperation, lambda node: node.expression),
    ]


def take_right(tree: Tree) -> Sequence[Edit]:
    """Replace an operation by its right operand."""
    return [
        *_instead(tree, cst.BinaryOperation, lambda node: node.right),
        *_instead(tree, cst.BooleanOperation, lambda node: node.right),
    ]


def take_then(tree: Tree) -> Sequence[Edit]:
    """Replace `a if c else b` by `a`, and a lambda by its body."""
    return [*_instead(tree, cst.IfExp, lambda node: node.body), *_instead(tree, cst.Lambda, lambda node: node.body)]


def take_otherwise(tree: Tree) -> Sequence[Edit]:
    """Replace `a if c else b` by `b`."""
    return _instead(tree, cst.IfExp, lambda node: node.orelse)


def take_argument(place: int) -> Callable[[Tree], Sequence[Edit]]:
    """Return the pass that replaces a call by an argument: a branch of `tl.where`, the operand of `tl.sum`."""
    count = place + 1

    def offer(tree: Tree) -> Sequence[Edit]:
        def argument(call: cst.Call) -> cst.BaseExpression | None:
            is_launch = isinstance(call.func, cst.Subscript)
            return None if is_launch or makes_tensor(call) or len(call.args) < count else call.args[place].value

        return _instead(tree, cst.Call, argument)

    return offer


def drop_elements(tree: Tree) -> Sequence[Edit]:
    """Drop an element of a tuple, list, set or dictionary, the last first; tuples keep their first."""
    firsts = {node.elements[0] for node in tree.all(cst.Tuple) if node.elements}
    parts = [node for node in reversed(tree.nodes) if isinstance(node, cst.Element | cst.DictElement)]
    return [removal(part) for part in parts if part not in firsts]


def drop_first_elements(tree: Tree) -> Sequence[Edit]:
    """Drop the first of several elements of a tuple."""
    return [removal(node.elements[0]) for node in tree.all(cst.Tuple) if len(node.elements) > 1]


def drop_parentheses(tree: Tree) -> Sequence[Edit]:
    """Drop parentheses."""
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
    """Return True for a call that moves a tensor to the GPU: only the emulated GPU would do without."""
    if not isinstance(call.func, cst.Attribute):
        return False
    is_to = call.func.attr.value == "to" and any(word in tree.code(call) for word in ("cuda", "device"))
    return is_to or call.func.attr.value == "cuda"


def _shapes(node: cst.CSTNode) -> bool:
    """Return True for a call whose result has another shape than its operands."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _SHAPING


def _is_module(tree: Tree, value: cst.BaseExpression) -> bool:
    while isinstance(value, cst.Attribute):
        value = value.value
    return isinstance(value, cst.Name) and value.value in tree.imported
