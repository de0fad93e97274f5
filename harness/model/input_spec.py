"""The declarations of an op's inputs: tensors, integers, sequence boundaries.

`harness.execution.inputs` draws their elements from a case's seed.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal

from harness.model.case import DType
from harness.syntax_trees import expression_of

Extent = str | int
"""A number, or integer arithmetic over dims: `T`, `G*D`, `K//2`, `W-1`."""

Integer = Literal["bool", "uint8", "int8", "int16", "int32", "int64"]
Distinct = bool | Literal["rows"]
"""Whether integers differ from each other: True for all of a tensor, `"rows"` for those of each row."""
Contiguity = bool | Literal["rows"]
"""What a function demands of a tensor's memory: True for a contiguous tensor, `"rows"` for separate contiguous rows."""


class Draw(StrEnum):
    """The transformation from numbers of the case's distribution to a tensor's elements."""

    VALUES = "values"
    """The numbers themselves."""
    UNIT = "unit"
    """Their sigmoid, in [0, 1]: for the betas of delta rules."""
    LOG_UNIT = "log-unit"
    """The logarithm of their sigmoid, at most 0: for log forget gates."""
    POSITIVE = "positive"
    """Their softplus, above 0."""
    SHARES = "shares"
    """Their softmax along the last axis; exactly zero for numbers that are exactly zero."""
    LOG_SHARES = "log-shares"
    """The logarithm of their softmax along the last axis."""
    NORMALISED = "normalised"
    """Rows of length one along the last axis: for the keys of delta rules."""
    LOGITS = "logits"
    """The numbers themselves; none, some, whole rows, or all but one of a row are minus infinity."""
    MASK = "mask"
    """Zeros; none, some, whole rows, or all but one of a row are minus infinity: additive masks."""
    ONE_HOT = "one-hot"
    """One at the largest number of each row along the last axis, and zero elsewhere."""
    POWERS = "powers"
    """Powers of two from 2^-12 to 2^12: scales of rows, blocks and quantised numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped:
    """An input that declares its shape."""

    shape: tuple[Extent, ...]
    broadcasts: tuple[Extent, ...] = ()
    """Extents of axes that may have one element instead, as torch broadcasts it: the batch of a mask."""

    @property
    def dims_of_shape(self) -> frozenset[str]:
        """Names of the dims in its shape."""
        return _named(*self.shape)

    @property
    def named(self) -> frozenset[str]:
        """Names of the dims in its extents."""
        return self.dims_of_shape

    def extents(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape for these dims."""
        return tuple(extent_of(extent, dims) for extent in self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor(Shaped):
    """A tensor of numbers: floating-point ones, or integers if its type or the case's is one of integers."""

    optional: bool = False
    """The library accepts None for it."""
    grad: bool = True
    """Its gradient is compared with the reference's."""
    dtype: DType | None = None
    """A fixed element type; None means the case's."""
    draw: Draw = Draw.VALUES
    distinct: bool = False
    """The numbers of each row, along the last dim, differ from each other."""
    ascending: bool = False
    """Each row, along the last dim, is sorted."""
    contiguous: Contiguity = False
    defined: Callable[..., Any] | None = None
    """The function that returns the mask of the cells that the library may read; None for all.

    It takes inputs, dims and options by name.  The other cells hold NaN, or the largest integer.  The definition gets
    zeros there.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Integers(Shaped):
    """A tensor of integers, `low <= x < high`: labels, offsets, indices."""

    low: Extent = 0
    high: Extent
    ignore: Extent | None = None
    """A value that no, some or all elements have besides: the `ignore_index` of losses, the pad of slots."""
    optional: bool = False
    dtype: Integer = "int64"
    distinct: Distinct = False
    ascending: bool = False
    """Each row, along the last dim, is sorted."""
    contiguous: Contiguity = False

    grad = False

    @property
    def named(self) -> frozenset[str]:
        """Names of the dims in its extents."""
        return _named(*self.shape, self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """Cumulative lengths of packed sequences, `[0, ..., total]`; each sequence has at least one token."""

    total: Extent
    count: Extent
    """The number of sequences; fewer if `total` is smaller."""
    may_be_empty: bool = False
    """The library accepts sequences of length 0."""
    tail: bool = False
    """The library accepts tokens after the last sequence: the last boundary may be less than `total`."""
    optional: bool = False
    dtype: Integer = "int64"
    contiguous: Contiguity = False

    grad = False

    @property
    def named(self) -> frozenset[str]:
        """Names of the dims in its extents."""
        return _named(self.total, self.count)

    def extents(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape for these dims: one boundary more than there are sequences."""
        return (min(extent_of(self.total, dims), extent_of(self.count, dims)) + 1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of groups that share a total, such as the tokens of each expert; any of them may be 0."""

    count: Extent
    total: Extent
    surplus: bool = False
    """The sum may be less than `total`: the rest belongs to no group."""
    optional: bool = False
    dtype: Integer = "int64"
    contiguous: Contiguity = False

    grad = False

    @property
    def named(self) -> frozenset[str]:
        """Names of the dims in its extents."""
        return _named(self.total, self.count)

    def extents(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape for these dims."""
        return (extent_of(self.count, dims),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built(Shaped):
    """A tensor that a function of the suite makes, from a seeded generator and from inputs declared before it."""

    by: Callable[..., Any]
    """It takes `generator`, a `torch.Generator`, and inputs, dims and options by name, and returns the tensor."""
    dtype: DType | Integer
    optional: bool = False
    contiguous: Contiguity = False

    grad = False


Input = Tensor | Integers | Segments | Sizes | Built


def extent_of(extent: Extent, dims: Mapping[str, int]) -> int:
    """Return the value of an extent for these dims.

    Raises:
        KeyError: the extent has the name of no dim.
        ValueError: the extent is no integer arithmetic with +, -, * and // over dims.
    """
    return extent if isinstance(extent, int) else _compiled(extent)(dims)


def _named(*extents: Extent) -> frozenset[str]:
    parsed = (ast.walk(expression_of(extent)) for extent in extents if isinstance(extent, str))
    return frozenset(node.id for nodes in parsed for node in nodes if isinstance(node, ast.Name))


_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


@lru_cache(maxsize=1024)
def _compiled(text: str) -> Callable[[Mapping[str, int]], int]:
    return _arithmetic(expression_of(text), text)


def _arithmetic(node: ast.expr, text: str) -> Callable[[Mapping[str, int]], int]:
    match node:
        case ast.Name(id=name):
            return lambda dims: dims[name]
        case ast.Constant(value=int(number)):
            return lambda _: number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            negated = _arithmetic(operand, text)
            return lambda dims: -negated(dims)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            first, second, apply = _arithmetic(left, text), _arithmetic(right, text), _OPERATORS[type(sign)]
            return lambda dims: apply(first(dims), second(dims))
        case _:
            raise ValueError(f"{text!r} is not integer arithmetic with +, -, * and // over dims")
