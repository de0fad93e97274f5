"""How much rounding can explain: the definition in float64, every intermediate moved by up to a unit in the last place.

An eager run in the case's own type tells one way to round.  On few elements, or where terms cancel, that one may be
exact by luck, while another order of the same operations is not.  Random rounding has no such luck (it is known as
Monte Carlo arithmetic: D. S. Parker, UCLA CSD-970002, 1997).  It sees inside a definition that is written in
elementary operations, and only the outside of a fused one.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

NOISE_ELEMENTS = 1 << 16


class Jitter(TorchDispatchMode):
    """While active, every new floating-point tensor is multiplied by `1 + epsilon * u`, u uniform in [-1, 1]."""

    def __init__(self, epsilon: float, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self._noise = 1 + epsilon * (2 * torch.rand(NOISE_ELEMENTS, generator=generator, dtype=torch.float64) - 1)
        self._starts = torch.randint(0, NOISE_ELEMENTS, (1 << 12,), generator=generator).tolist()
        self._calls = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Let the operation run, and move what it made."""
        made = func(*args, **(kwargs or {}))
        if func.overloadpacket in _EXACT or any(result.alias_info is not None for result in func._schema.returns):  # noqa: SLF001 - the schema has no public name
            return made  # a copy, a view, or a tensor that was changed in place
        if isinstance(made, torch.Tensor):
            return self._moved(made)
        return type(made)(map(self._moved, made)) if isinstance(made, tuple | list) else made

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype is not torch.float64 or not value.numel():
            return value
        return value * self._draw(value.numel()).reshape(value.shape)

    def _draw(self, count: int) -> torch.Tensor:
        """Noise from a stretch of the buffer that begins somewhere else each time."""
        start = self._starts[self._calls % len(self._starts)]
        self._calls += 1
        if start + count <= NOISE_ELEMENTS:
            return self._noise[start : start + count]
        repeats = -(-(start + count) // NOISE_ELEMENTS)
        return self._noise.repeat(repeats)[start : start + count]


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
