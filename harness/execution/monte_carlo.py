"""Random rounding: the definition in float64, with every intermediate moved by up to a unit in the last place.

It shows the error that rounding can explain.  An eager run in the case's own type shows one way to round.  On few
elements, or if terms cancel, that way may be exact by luck, while another order of the same operations is not.  Random
rounding avoids such luck.  It is known as Monte Carlo arithmetic (D. S. Parker, UCLA CSD-970002, 1997).  It covers the
steps of a definition that is written in elementary operations, but only the result of a fused operation.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from functools import cache, lru_cache
from math import isfinite
from typing import Any, Self

import numpy as np
import torch

from harness.engines.torch.torch_seam import OperatorMode, schema_of
from harness.execution.whole_numbers import WholeNumbers

NOISE_ELEMENTS = 1 << 16
"""The period of the noise."""
FLOAT32_EPSILON = float(torch.finfo(torch.float32).eps)


class Jitter(OperatorMode):
    """While active, every new floating-point tensor is multiplied by `1 + epsilon * u`, u uniform in [-1, 1].

    Products use the larger of `epsilon` and `products`; matrix products apply it to every factor.  A sum of n numbers
    may move by n / 16 units in the last place of float32.  A program that adds up many equal numbers in sequence is off
    by that much (measured: 0.06 n).  A pairwise sum does not show it.
    """

    def __init__(
        self, epsilon: float, seed: int, *, products: float = 0.0, spacing: float = 0.0, terms: bool = False
    ) -> None:
        """Make a mode whose noise follows from `seed`.

        Args:
            epsilon: the unit in the last place of the case's type.
            seed: decides where in the noise each draw begins.
            products: how far products are moved.
            spacing: the distance of the type's subnormal numbers, near which rounding is absolute; 0 to ignore it.
            terms: whether the terms of a sum of n are moved too, by about sqrt(n / 2) units in the last place of
                float32.  The rounding of partial sums in any order moves a sum that far.  If terms cancel, that is far
                more than the rounding of the sum itself.
        """
        super().__init__()
        self._epsilon = epsilon
        self._spacing = spacing
        self._products = max(epsilon, products)
        self._terms = terms
        self._whole = WholeNumbers()
        self._choice = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.partial = FLOAT32_EPSILON
        """The unit in the last place of partial sums: float32's, or float64's in a case of that type."""
        self.records_largest = False
        self.largest = 0.0
        """The largest finite magnitude of any intermediate so far, if `records_largest`."""

    def __enter__(self) -> Self:
        self._silence = np.errstate(all="ignore")  # as torch, which overflows in silence
        self._silence.__enter__()
        return super().__enter__()

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self._silence.__exit__(None, None, None)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operation, and move its results."""
        nature = _nature(func)
        args = self._moved_factors(nature, args)
        result = func(*args, **kwargs) if kwargs else func(*args)
        if self._whole.notes(func, args, kwargs or {}, result):  # rounding is exact, and so are whole numbers
            return result
        match nature:
            case _Nature.EXACT:
                return result
            case _Nature.PRODUCT | _Nature.MATRIX_PRODUCT:
                scale = self._products
            case _Nature.SUM:
                terms = _terms_of(args[0], result)
                scale = max(self._epsilon, self.partial * _in_a_row(terms))
                if self._terms:
                    moved = self._factor(args[0], self.partial * _steps_of_a_walk(terms))
                    result = func(moved, *args[1:], **(kwargs or {}))
            case _Nature.OTHER | _Nature.SOLVER:
                scale = self._epsilon
            case _Nature.WITH_MASK:
                self._move(result[0], self._epsilon)
                return result
        for tensor in result if isinstance(result, tuple | list) else (result,):
            self._move(tensor, scale)
        return result

    def _moved_factors(self, nature: "_Nature", args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments; those of products and solvers moved, for the terms of the sum inside may cancel."""
        if nature is _Nature.MATRIX_PRODUCT and self._products > self._epsilon:
            return tuple(self._factor(tensor, self._products) for tensor in args)
        if nature is _Nature.SOLVER:
            return tuple(self._factor(tensor, self._epsilon) for tensor in args)
        return args

    def _factor(self, value: Any, scale: float) -> Any:
        """Return a moved copy of a factor or term."""
        if isinstance(value, torch.Tensor):
            value = value.clone()
            self._move(value, scale)
        return value

    def _move(self, value: Any, scale: float) -> None:
        """Move a new tensor in place."""
        if not isinstance(value, torch.Tensor) or value.dtype is not torch.float64:
            return
        count = value.numel()
        if not count:
            return
        if self.records_largest:
            self.largest = max(self.largest, _largest(value))
        zeros = value == 0 if self._spacing else None  # zeros are exact
        self._change(value, _factors(scale, value.device), np.multiply, torch.Tensor.mul_)
        if zeros is not None:
            self._change(value, _steps(self._spacing, value.device), np.add, torch.Tensor.add_)
            value.masked_fill_(zeros, 0.0)

    def _change(self, value: torch.Tensor, twice: "_Noise", small: Any, change: Callable[..., Any]) -> None:
        """Change a tensor in place by noise, or by what is made of it, from a random start.

        `twice` holds the noise two times in a row.  So a short draw needs no copy, and a long one none of its length.
        NumPy takes half of torch's time for the many short ones.
        """
        start, count = self._choice.randrange(NOISE_ELEMENTS), value.numel()
        if twice.array is not None and start + count <= 2 * NOISE_ELEMENTS:
            numbers = value.numpy()
            small(numbers, twice.array[start : start + count].reshape(numbers.shape), out=numbers)
            return
        for part, noise in _parts(value, twice.tensor, start):
            change(part, noise)


def _parts(value: torch.Tensor, twice: torch.Tensor, start: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield the parts of a tensor, each with its noise."""
    count, length = value.numel(), 2 * NOISE_ELEMENTS
    end = start + count
    if end <= length:
        yield value, twice[start:end].view(value.shape)
    elif not value.is_contiguous():
        yield value, twice.repeat(-(-end // length))[start:end].view(value.shape)
    else:
        flat = value.view(-1)
        head = length - start
        whole = (count - head) // length
        tail = head + whole * length
        yield flat[:head], twice[start:]
        yield flat[head:tail].view(whole, length), twice
        yield flat[tail:], twice[: count - tail]


def _largest(value: torch.Tensor) -> float:
    """Return the largest magnitude of a finite element."""
    largest = float(value.abs().max())
    if isfinite(largest):
        return largest
    return float(torch.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0).abs().max())


def _in_a_row(terms: int) -> float:
    """Return how many units in the last place a sequential sum may be off, rounded down to a power of two."""
    return 2.0 ** (max(1, terms // 16).bit_length() - 1)


def _steps_of_a_walk(terms: int) -> float:
    """Return about the square root of half the terms, as a power of two.

    It is the expected distance of a random walk of rounding errors.
    """
    return 2.0 ** (terms.bit_length() // 2)


def _terms_of(summed: torch.Tensor, sums: torch.Tensor) -> int:
    """Return the number of terms of each sum."""
    return summed.numel() // max(1, sums.numel())


class _Noise:
    """Noise, two times in a row, as a tensor, and as an array of NumPy if it is on the CPU."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.array = tensor.numpy() if tensor.device.type == "cpu" else None


@lru_cache(maxsize=32)
def _factors(scale: float, device: torch.device) -> _Noise:
    return _Noise(1 + scale * _noise(device))


@lru_cache(maxsize=4)
def _steps(spacing: float, device: torch.device) -> _Noise:
    return _Noise(spacing * _noise(device))


@cache
def _noise(device: torch.device) -> torch.Tensor:
    """Return uniform noise in [-1, 1], two times in a row.

    It is drawn once, since drawing costs more than the whole reference of a small case.
    """
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(NOISE_ELEMENTS, generator=generator, dtype=torch.float64, device="cpu")
    return (2 * drawn - 1).repeat(2).to(device)


class _Nature(Enum):
    """The kind of an operation, which decides how far its result moves."""

    EXACT = auto()
    """It does not round, or makes no new tensor: a copy, a view, a change in place."""
    MATRIX_PRODUCT = auto()
    PRODUCT = auto()
    SOLVER = auto()
    """Linear algebra in one operation.  It gives the right result of a matrix that is off by rounding."""
    SUM = auto()
    WITH_MASK = auto()
    """Its second result is a mask of numbers 0 and 1, which backward rejects if they are moved."""
    OTHER = auto()


@cache
def _nature(func: Any) -> _Nature:
    returns = schema_of(func).returns
    packet = func.overloadpacket
    if packet in _EXACT or any(result.alias_info is not None for result in returns):
        return _Nature.EXACT
    if packet in _MATRIX_PRODUCTS:
        return _Nature.MATRIX_PRODUCT
    if packet.__name__.lstrip("_").startswith("linalg_"):
        return _Nature.SOLVER
    if packet is _ATEN.mul:
        return _Nature.PRODUCT
    if packet is _ATEN.multilabel_margin_loss_forward:
        return _Nature.WITH_MASK
    return _Nature.SUM if packet in _SUMS else _Nature.OTHER


_ATEN = torch.ops.aten
_MATRIX_PRODUCTS: frozenset[Callable[..., Any]] = frozenset(
    {_ATEN.mm, _ATEN.bmm, _ATEN.addmm, _ATEN.baddbmm, _ATEN.mv, _ATEN.dot}
)
_SUMS: frozenset[Callable[..., Any]] = frozenset({_ATEN.sum, _ATEN.mean})
_EXACT: frozenset[Callable[..., Any]] = frozenset(
    {
        _ATEN.clone,
        _ATEN._to_copy,  # noqa: SLF001 - aten's own names for what rounds nothing
        _ATEN._efficientzerotensor,  # noqa: SLF001 - autograd's zeros without memory, which cannot be moved in place
        _ATEN.zeros_like,
        _ATEN.ones_like,
        _ATEN.zeros,
        _ATEN.ones,
        _ATEN.full,
        _ATEN.full_like,
        _ATEN.empty_like,
        _ATEN.neg,
        _ATEN.where,
        _ATEN.cat,
        _ATEN.stack,
        _ATEN.index_select,
        _ATEN.gather,
        _ATEN.maximum,
        _ATEN.minimum,
        _ATEN.abs,
        _ATEN.relu,
    }
)
"""Operations that make new tensors without rounding."""
