"""How much rounding can explain: the definition in float64, every intermediate moved by up to a unit in the last place.

An eager run in the case's own type tells one way to round.  On few elements, or where terms cancel, that one may be
exact by luck, while another order of the same operations is not.  Random rounding has no such luck (it is known as
Monte Carlo arithmetic: D. S. Parker, UCLA CSD-970002, 1997).  It sees inside a definition that is written in
elementary operations, and only the outside of a fused one.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from functools import cache, lru_cache
from math import isfinite
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

NOISE_ELEMENTS = 1 << 16
FLOAT32_EPSILON = float(torch.finfo(torch.float32).eps)

FACTOR_EPSILONS: Mapping[str, float] = {"tf32": 2.0**-9, "bf16x3": 2.0**-14, "bf16x6": 2.0**-21, "tf32x3": 2.0**-20}
"""How far matrix units move a product of float32s, by `tl.dot`'s input precision: tf32 keeps ten bits of a factor."""


def product_epsilon(precisions: Iterable[str]) -> float:
    """The coarsest of some input precisions; 0 where none rounds."""
    return max((FACTOR_EPSILONS.get(precision, 0.0) for precision in precisions), default=0.0)


class Jitter(TorchDispatchMode):
    """While active, every new floating-point tensor is multiplied by `1 + epsilon * u`, u uniform in [-1, 1].

    For products, of elements or of matrices, the larger of `epsilon` and `products` counts, for matrices in every
    factor.  A sum of n numbers may
    move by n / 16 units in the last place of float32: so far a program gets that adds up many equal numbers in a row
    (measured: 0.06 n), which no sum by halves shows.
    """

    def __init__(
        self, epsilon: float, seed: int, *, products: float = 0.0, spacing: float = 0.0, terms: bool = False
    ) -> None:
        """`spacing` is that of the type's subnormal numbers, where it matters: below them, rounding is absolute.

        With `terms`, those of a sum of n are moved before it is taken, by some sqrt(n / 2) units in the last place of
        float32: as far as the rounding of its partial sums, taken one after the other in any order, moves the sum.
        Where terms cancel, that is far more than what moves their sum alone.
        """
        super().__init__()
        self._epsilon = epsilon
        self._spacing = spacing
        self._products = max(epsilon, products)
        self._terms = terms
        self._choice = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.watches_size = False
        self.largest = 0.0
        """The largest finite magnitude of any intermediate so far, where that is watched."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: the steps that keep TorchDynamo out cost more than what an operation is; nothing compiles here."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Let the operation run, and move what it made."""
        nature = _nature(func)
        if nature is _Nature.MATRIX_PRODUCT and self._products > self._epsilon:
            args = tuple(self._factor(one, self._products) for one in args)  # before terms cancel
        made = func(*args, **kwargs) if kwargs else func(*args)
        match nature:
            case _Nature.EXACT:
                return made
            case _Nature.PRODUCT | _Nature.MATRIX_PRODUCT:
                scale = self._products
            case _Nature.SUM:
                terms = _terms(args[0], made)
                scale = max(self._epsilon, _in_a_row(terms))
                if self._terms:
                    moved = self._factor(args[0], FLOAT32_EPSILON * _steps_of_a_walk(terms))
                    made = func(moved, *args[1:], **(kwargs or {}))
            case _Nature.OTHER:
                scale = self._epsilon
        for one in made if isinstance(made, tuple | list) else (made,):
            self._move(one, scale)
        return made

    def _factor(self, value: Any, scale: float) -> Any:
        """What a matrix unit makes of a factor, or a sum of a term: the factor itself stays as it is."""
        if isinstance(value, torch.Tensor):
            value = value.clone()
            self._move(value, scale)
        return value

    def _move(self, value: Any, scale: float) -> None:
        """In place: nobody has seen it yet."""
        if not isinstance(value, torch.Tensor) or value.dtype is not torch.float64:
            return
        count = value.numel()
        if not count:
            return
        if self.watches_size:
            self.largest = max(self.largest, _largest(value))
        value.mul_(self._draw(count, _factors(scale)).view(value.shape))
        if self._spacing:
            zeros = value == 0  # which are exact
            value.add_(self._draw(count, _steps(self._spacing)).view(value.shape)).masked_fill_(zeros, 0.0)

    def _draw(self, count: int, twice: torch.Tensor) -> torch.Tensor:
        """A stretch of noise, or of factors made of it, that begins somewhere else each time."""
        start = self._choice.randrange(NOISE_ELEMENTS)
        end = start + count
        if end <= 2 * NOISE_ELEMENTS:
            return twice[start:end]
        return twice.repeat(-(-end // (2 * NOISE_ELEMENTS)))[start:end]


def _largest(value: torch.Tensor) -> float:
    """Magnitude of a finite element."""
    largest = float(value.abs().max())
    if isfinite(largest):
        return largest
    return float(torch.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0).abs().max())


def _in_a_row(terms: int) -> float:
    """How far sums may be off that were taken one number after the other, rounded down to a power of two."""
    return FLOAT32_EPSILON * 2.0 ** (max(1, terms // 16).bit_length() - 1)


def _steps_of_a_walk(terms: int) -> float:
    """The square root of half of them, to a power of two."""
    return 2.0 ** (terms.bit_length() // 2)


def _terms(summed: torch.Tensor, sums: torch.Tensor) -> int:
    """Of each sum."""
    return summed.numel() // max(1, sums.numel())


@lru_cache(maxsize=32)
def _factors(scale: float) -> torch.Tensor:
    return 1 + scale * _noise()


@lru_cache(maxsize=2)
def _steps(spacing: float) -> torch.Tensor:
    return spacing * _noise()


@cache
def _noise() -> torch.Tensor:
    """Uniform in [-1, 1], all of it twice; made once: drawing it costs more than a small case's whole reference."""
    generator = torch.Generator().manual_seed(0)
    return (2 * torch.rand(NOISE_ELEMENTS, generator=generator, dtype=torch.float64) - 1).repeat(2)


class _Nature(Enum):
    """What decides how far the result of an operation may move."""

    EXACT = auto()
    """It rounds nothing, or makes nothing new: a copy, a view, a tensor that was changed in place."""
    MATRIX_PRODUCT = auto()
    PRODUCT = auto()
    SUM = auto()
    OTHER = auto()


@cache
def _nature(func: Any) -> _Nature:
    returns = func._schema.returns  # noqa: SLF001 - the schema has no public name
    packet = func.overloadpacket
    if packet in _EXACT or any(result.alias_info is not None for result in returns):
        return _Nature.EXACT
    if packet in _MATRIX_PRODUCTS:
        return _Nature.MATRIX_PRODUCT
    if packet is _ATEN.mul:
        return _Nature.PRODUCT
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
