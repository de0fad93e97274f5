"""Terms of a kernel that are off by 1e-4 of their size: each is multiplied by 1.0001.

Terms are float32 values: summands, values of contractions, arguments of exponentials and the like, and values that are
stored or returned.  A narrower value would round the factor away.
"""

from collections.abc import Iterator

import libcst as cst

from studies.mutation.float32_expressions import RETURN_FLOAT32, float32_expressions
from studies.mutation.syntax import atom, last_name, parenthesised

FACTOR = "1.0001"
CONTRACTIONS = frozenset({"cumsum", "dot", "dot_scaled", "sum"})
STORES = frozenset({"store", "atomic_add"})
"""Functions of `tl` and methods of tensor descriptors.  The value is their second argument."""


class ScaledTerms:
    """The rule for one function: yields each of its float32 terms times 1.0001."""

    def __init__(self, function: cst.FunctionDef) -> None:
        float32 = float32_expressions(function)
        nodes = tuple(_below(function.body))
        self._whole = {term for node in nodes for term in _whole_terms(node)} & float32
        """Terms next to which only a sum, a comma or nothing stands."""
        self._inner = {term for node in nodes for term in _inner_terms(node)} & float32

    def __call__(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        if node in self._whole and isinstance(node, cst.BaseExpression):
            yield _scaled(node)
        elif node in self._inner and isinstance(node, cst.BaseExpression):
            yield parenthesised(_scaled(node))


def _whole_terms(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    match node:
        case cst.BinaryOperation(left=left, operator=cst.Add() | cst.Subtract(), right=right):
            yield from (*_summands(left), right)
        case cst.AugAssign(operator=cst.AddAssign() | cst.SubtractAssign(), value=value):
            yield from _summands(value)
        case cst.Call(func=function, args=[first, *_]) if last_name(function) in RETURN_FLOAT32:
            yield first.value
        case _:
            yield from _results(node)


def _inner_terms(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.Call) and last_name(node.func) in CONTRACTIONS:
        yield node
    for result in _results(node):
        yield from _before_conversion(result)


def _results(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield the values that a statement returns or a call stores."""
    match node:
        case cst.Return(value=cst.Tuple(elements=elements)):
            yield from (element.value for element in elements)
        case cst.Return(value=cst.BaseExpression() as value):
            yield value
        case cst.Call(func=function, args=[_, second, *_]) if last_name(function) in STORES:
            yield second.value
        case _:
            pass


def _before_conversion(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the value that a conversion gets.  After it, the factor could be lost."""
    match node:
        case cst.Call(func=cst.Attribute(value=cst.Name(value="tl"), attr=cst.Name(value="cast")), args=[first, *_]):
            yield first.value
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(value="to"))):
            yield value
        case _:
            pass


def _summands(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield the summands; the expression itself if it is no sum, or a sum in parentheses."""
    match node:
        case cst.BinaryOperation(left=left, operator=cst.Add() | cst.Subtract(), right=right, lpar=[]):
            yield from _summands(left)
            yield right
        case _:
            yield node


def _scaled(node: cst.BaseExpression) -> cst.BaseExpression:
    is_product = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply | cst.Divide)
    factor = node if is_product else atom(node)
    return cst.BinaryOperation(left=factor, operator=cst.Multiply(), right=cst.Float(FACTOR))


def _below(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for child in node.children:
        yield child
        yield from _below(child)
