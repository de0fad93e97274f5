"""Borders of rounding: the integers that a right kernel may give where an argument lies next to a border.

A quantiser computes `round(x / scale)`.  Where float32 and float64 fall on either side of a border, both neighbours are
right; everywhere else one is.  The definition runs with the arguments of its roundings recorded, in exact arithmetic
and with random rounding, and then with all of them moved down, and up, by as much as float32 may be off.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from harness.engines.torch.torch_seam import OperatorMode
from harness.execution.monte_carlo import FLOAT32_EPSILON, Jitter
from harness.execution.result_forms import Tensors
from harness.execution.tolerance import Neighbours
from harness.execution.whole_numbers import WholeNumbers, casts, is_rounded_division, rounds

ULPS = 4.0
"""The error of an argument that is computed in few steps, in units of float32: a scale, its reciprocal, a product."""
SAMPLES = 4
"""Runs with random rounding, which show the errors of arguments that longer computations give."""
ROOM = 4.0
"""How many times the largest error of these runs counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomRounding:
    """The random rounding of a case, as `Jitter` takes it."""

    epsilon: float
    products: float


def neighbours_of(define: Callable[[], Tensors], rounding: RandomRounding) -> Mapping[str, Neighbours]:
    """Return by integer result what a right kernel may give; none if the definition rounds nothing.

    Args:
        define: runs the definition in float64.
        rounding: how far rounding in the case's type moves its intermediates.
    """
    with _Arguments() as exact:
        results = define()
    if not exact.seen or all(value.is_floating_point() for value in results.values()):
        return {}
    moved: list[Sequence[torch.Tensor]] = []
    for seed in range(SAMPLES):
        with _Arguments() as each, Jitter(rounding.epsilon, seed, products=rounding.products, terms=True):
            define()
        moved.append(each.seen)
    errors = [
        _error(argument, [each[at] for each in moved if at < len(each)], rounding.epsilon)
        for at, argument in enumerate(exact.seen)
    ]
    with _Moved([-error for error in errors]):
        low = define()
    with _Moved(errors):
        high = define()
    neighbours = {
        name: _neighbours(value, low[name], high[name]) for name, value in results.items() if _is_integer(value)
    }
    return _without_overflows(neighbours, define) if exact.overflows else neighbours


def _without_overflows(neighbours: Mapping[str, Neighbours], define: Callable[[], Tensors]) -> Mapping[str, Neighbours]:
    """Return neighbours without limits where a cast leaves the range of its integers, which nothing defines."""
    with _Overflowing(least=True):
        least = define()
    with _Overflowing(least=False):
        largest = define()
    unlimited: dict[str, Neighbours] = {}
    for name, limited in neighbours.items():
        is_undefined = (least[name] != largest[name]).numpy()
        unlimited[name] = Neighbours(
            low=np.where(is_undefined, -np.inf, limited.low),
            high=np.where(is_undefined, np.inf, limited.high),
            wraps=limited.wraps & ~is_undefined,
        )
    return unlimited


def _is_integer(value: torch.Tensor) -> bool:
    return not value.is_floating_point() and value.dtype is not torch.bool


def _neighbours(*values: torch.Tensor) -> Neighbours:
    arrays = [value.to(torch.float64).numpy() for value in values]
    low, high = np.minimum.reduce(arrays), np.maximum.reduce(arrays)
    return Neighbours(low=low, high=high, wraps=high - low > torch.iinfo(values[0].dtype).max)


def _error(exact: torch.Tensor, moved: Sequence[torch.Tensor], epsilon: float) -> torch.Tensor:
    """Return how far a right kernel's argument may be from the exact one."""
    error = (ULPS * FLOAT32_EPSILON + (epsilon if epsilon > FLOAT32_EPSILON else 0.0)) * exact.abs()
    for each in moved:
        if each.shape == exact.shape:
            error = torch.maximum(error, ROOM * (each - exact).abs())
    return torch.nan_to_num(error, nan=0.0, posinf=0.0)


class _Roundings(OperatorMode):
    """Gets the arguments of each rounding that is not of whole numbers, in the order of the calls."""

    def __init__(self) -> None:
        super().__init__()
        self._whole = WholeNumbers()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operator, with other arguments if it rounds."""
        kwargs = kwargs or {}
        if rounds(func, args, kwargs) and args[0].dtype is torch.float64 and not self._is_whole(func, args):
            result = self._rounded(func, args, kwargs)
        else:
            result = func(*args, **kwargs)
        self._whole.notes(func, args, kwargs, result)
        return result

    def _is_whole(self, func: Any, args: tuple[Any, ...]) -> bool:
        return not is_rounded_division(func, {"rounding_mode": "floor"}) and self._whole.holds(args[0])

    def _rounded(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        raise NotImplementedError


def _argument(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor:
    return args[0] / args[1] if is_rounded_division(func, kwargs) else args[0]


class _Arguments(_Roundings):
    """Records the arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[torch.Tensor] = []
        self.overflows = False
        """True if a cast leaves the range of its integers."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Also notice a cast of numbers that are too large."""
        outside = None if self.overflows else _outside(func, args, kwargs or {})
        self.overflows = self.overflows or (outside is not None and bool(outside.any()))
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _rounded(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        self.seen.append(_argument(func, args, kwargs).detach().clone())
        return func(*args, **kwargs)


class _Moved(_Roundings):
    """Moves the arguments."""

    def __init__(self, steps: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._steps = list(steps)

    def _rounded(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        argument = _argument(func, args, kwargs)
        step = self._steps.pop(0) if self._steps else torch.zeros(())
        if step.shape != argument.shape:
            return func(*args, **kwargs)
        if is_rounded_division(func, kwargs):
            moved = argument + step
            return moved.trunc() if kwargs.get("rounding_mode") == "trunc" else moved.floor()
        if func.overloadpacket.__name__.endswith("_"):
            args[0].add_(step)
            return func(*args, **kwargs)
        return func(argument + step, *args[1:], **kwargs)


class _Overflowing(OperatorMode):
    """Has casts of numbers that are too large return the least, or the largest, integer."""

    def __init__(self, *, least: bool) -> None:
        super().__init__()
        self._least = least

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operator, and replace what a cast does not define."""
        kwargs = kwargs or {}
        outside, result = _outside(func, args, kwargs), func(*args, **kwargs)
        if outside is None:
            return result
        limits = torch.iinfo(kwargs["dtype"])
        return result.masked_fill(outside, limits.min if self._least else limits.max)


def _outside(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """Return the mask of the numbers that a cast cannot keep; None for other operators."""
    if not casts(func) or not rounds(func, args, kwargs):
        return None
    limits = torch.iinfo(kwargs["dtype"])
    whole = args[0].trunc()
    return ~((whole >= limits.min) & (whole <= limits.max))
