"""How much rounding can explain: the definition in float64, every intermediate moved by up to a unit in the last place.

An eager run in the case's own type tells one way to round.  On few elements, or where terms cancel, that one may be
exact by luck, while another order of the same operations is not.  Random rounding has no such luck (it is known as
Monte Carlo arithmetic: D. S. Parker, UCLA CSD-970002, 1997).  It sees inside a definition that is written in
elementary operations, and only the outside of a fused one.
"""

import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

NOISE_ELEMENTS = 1 << 16


class Jitter(TorchDispatchMode):
    """While active, every new floating-point tensor is multiplied by `1 + epsilon * u`, u uniform in [-1, 1]."""

    def __init__(self, epsilon: float, seed: int) -> None:
        super().__init__()
        self._factors = 1 + epsilon * _noise()
        self._choice = random.Random(seed)  # noqa: S311 - reproducible, not secret

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Let the operation run, and move what it made."""
        made = func(*args, **(kwargs or {}))
        if _is_exact(func):
            return made
        if isinstance(made, torch.Tensor):
            return self._moved(made)
        return type(made)(map(self._moved, made)) if isinstance(made, tuple | list) else made

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype is not torch.float64 or not value.numel():
            return value
        return value * self._draw(value.numel()).reshape(value.shape)

    def _draw(self, count: int) -> torch.Tensor:
        """Factors from a stretch of the buffer that begins somewhere else each time."""
        start = self._choice.randrange(NOISE_ELEMENTS)
        if start + count <= NOISE_ELEMENTS:
            return self._factors[start : start + count]
        repeats = -(-(start + count) // NOISE_ELEMENTS)
        return self._factors.repeat(repeats)[start : start + count]


@cache
def _noise() -> torch.Tensor:
    """Uniform in [-1, 1]; made once, since drawing it costs more than a small case's whole reference."""
    generator = torch.Generator().manual_seed(0)
    return 2 * torch.rand(NOISE_ELEMENTS, generator=generator, dtype=torch.float64) - 1


@cache
def _is_exact(func: Any) -> bool:
    """Whether an operation rounds nothing, or makes nothing new: a copy, a view, a tensor that was changed in place."""
    returns = func._schema.returns  # noqa: SLF001 - the schema has no public name
    return func.overloadpacket in _EXACT or any(result.alias_info is not None for result in returns)


_ATEN = torch.ops.aten
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
