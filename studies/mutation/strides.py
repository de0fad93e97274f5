"""Swapped strides: two terms of one address exchange their multipliers.

An address is a sum, such as `x + o_t[:, None] * D + o_d[None, :]`.  Two terms are swapped if they run along different
axes of a tile, or if names that begin with `stride` multiply both.  A term without a multiplier has the multiplier one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import libcst as cst

ROWS, COLUMNS = "[:, None]", "[None, :]"
_EMPTY = cst.Module([])


def swap_strides(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield sums with the multipliers of two terms swapped, and block pointers with two strides swapped."""
    match node:
        case cst.BinaryOperation(operator=cst.Add()):
            yield from _swapped_in_sum(node)
        case cst.Call(func=cst.Attribute(value=cst.Name(value="tl"), attr=cst.Name(value=name))) if name in {
            "make_block_ptr",
            "make_tensor_descriptor",
        }:
            yield from _swapped_in_block(node)
        case _:
            pass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Term:
    """One summand: an index times a multiplier."""

    node: cst.BaseExpression
    index: cst.BaseExpression
    factors: tuple[cst.BaseExpression, ...]
    axis: str
    """`[:, None]` or `[None, :]`, the broadcast of the index over a tile; empty if it has none."""

    @property
    def stride(self) -> str:
        """The source text of the multiplier."""
        return "*".join(map(_code, self.factors))

    def times(self, factors: tuple[cst.BaseExpression, ...]) -> cst.BaseExpression:
        """Return the index times another multiplier."""
        product = self.index
        for factor in factors:
            product = cst.BinaryOperation(left=product, operator=cst.Multiply(), right=factor)
        return product


def _swapped_in_sum(node: cst.BinaryOperation) -> Iterator[cst.CSTNode]:
    last = node.right
    terms = [_term(term) for term in _summands(node)]
    for term, other in combinations(terms, 2):
        # Sums nest, so a pair occurs in several.  Take it once, in the shortest sum, which ends with the later term.
        if other.node is last and _are_exchangeable(term, other):
            first = node.deep_replace(term.node, term.times(other.factors))
            if isinstance(first, cst.BinaryOperation):
                yield first.with_changes(right=other.times(term.factors))


def _swapped_in_block(node: cst.Call) -> Iterator[cst.CSTNode]:
    for index, argument in enumerate(node.args):
        is_strides = argument.keyword.value == "strides" if argument.keyword else index == 2
        match argument.value:
            case cst.Tuple(elements=[first, second]) | cst.List(elements=[first, second]) if is_strides and _code(
                first.value
            ) != _code(second.value):
                values = (first.with_changes(value=second.value), second.with_changes(value=first.value))
                yield node.deep_replace(argument.value, argument.value.with_changes(elements=values))
            case _:
                pass


def _are_exchangeable(term: _Term, other: _Term) -> bool:
    if term.stride == other.stride:
        return False
    if term.axis and other.axis:
        return term.axis != other.axis
    return term.stride.startswith("stride") and other.stride.startswith("stride")


def _summands(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add) and not node.lpar:
        yield from _summands(node.left)
        yield node.right
    else:
        yield node


def _term(node: cst.BaseExpression) -> _Term:
    index, factors = node, list[cst.BaseExpression]()
    while isinstance(index, cst.BinaryOperation) and isinstance(index.operator, cst.Multiply) and not index.lpar:
        factors.insert(0, index.right)
        index = index.left
    text = _code(index)
    axis = next((axis for axis in (ROWS, COLUMNS) if isinstance(index, cst.Subscript) and text.endswith(axis)), "")
    return _Term(node=node, index=index, factors=tuple(factors), axis=axis)


def _code(node: cst.CSTNode) -> str:
    return _EMPTY.code_for_node(node)
