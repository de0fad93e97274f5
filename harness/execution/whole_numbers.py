"""Numbers that a definition rounds to whole ones: what makes them, and what keeps them whole.

Rounding is exact, and so is arithmetic of whole numbers that fit.  But it jumps at a border: where its argument in
exact arithmetic is nearer to a border than float32's error, a right kernel may get either neighbour.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from harness.engines.torch.torch_seam import schema_of, tree_leaves

_ATEN = torch.ops.aten
_ROUNDINGS: frozenset[Callable[..., Any]] = frozenset(
    {_ATEN.round, _ATEN.round_, _ATEN.floor, _ATEN.floor_, _ATEN.ceil, _ATEN.ceil_, _ATEN.trunc, _ATEN.trunc_}
)
_DIVISIONS: frozenset[Callable[..., Any]] = frozenset({_ATEN.floor_divide, _ATEN.div})
_MAY_ROUND = _ROUNDINGS | _DIVISIONS | {_ATEN._to_copy}  # noqa: SLF001 - aten's own name of a cast
_KEEPERS: frozenset[Callable[..., Any]] = frozenset(
    {
        *(_ATEN.add, _ATEN.sub, _ATEN.mul, _ATEN.neg, _ATEN.abs, _ATEN.clamp, _ATEN.clamp_min, _ATEN.clamp_max),
        *(_ATEN.maximum, _ATEN.minimum, _ATEN.where, _ATEN.masked_fill, _ATEN.cat, _ATEN.stack, _ATEN.clone),
        *(_ATEN._to_copy, _ATEN.index_select, _ATEN.gather, _ATEN.amax, _ATEN.amin),  # noqa: SLF001 - aten's own name
    }
)


def rounds(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return True if a call of an operator rounds floating-point numbers to whole ones."""
    packet = func.overloadpacket
    if packet not in _MAY_ROUND or not isinstance(args[0], torch.Tensor) or not args[0].is_floating_point():
        return False
    if packet in _ROUNDINGS:
        return not kwargs.get("decimals")
    if casts(func):
        dtype = kwargs.get("dtype")
        return dtype is not None and dtype is not torch.bool and not (dtype.is_floating_point or dtype.is_complex)
    return is_rounded_division(func, kwargs)


def casts(func: Any) -> bool:
    return func.overloadpacket is _ATEN._to_copy  # noqa: SLF001 - aten's own name of a cast


def is_rounded_division(func: Any, kwargs: Mapping[str, Any]) -> bool:
    packet = func.overloadpacket
    return packet in _DIVISIONS and (packet is _ATEN.floor_divide or bool(kwargs.get("rounding_mode")))


def _copies_integers(func: Any, args: tuple[Any, ...]) -> bool:
    return casts(func) and not args[0].is_floating_point()


class WholeNumbers:
    """Knows which floating-point tensors hold whole numbers, by the operators that made them."""

    def __init__(self) -> None:
        self._known = WeakTensorKeyDictionary()
        self._has_known = False
        """False until the first tensor of whole numbers: then most operators need no look at their arguments."""

    def holds(self, value: Any) -> bool:
        """Return True for whole numbers: known tensors, integers, and numbers of Python without a fraction."""
        if not isinstance(value, torch.Tensor):
            return not isinstance(value, float) or value.is_integer()
        if not value.is_floating_point() or value in self._known:
            return True
        return not value.dim() and float(value).is_integer()

    def notes(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> bool:
        """Note the result of an operator; return True if its numbers are whole."""
        if not self._has_known and func.overloadpacket not in _MAY_ROUND:
            return False
        is_whole = rounds(func, args, kwargs) or _copies_integers(func, args)
        if not is_whole and not self._known:
            return False
        self._has_known = True
        if not is_whole:
            operands = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor | float)]
            keeps = func.overloadpacket in _KEEPERS or any(each.alias_info for each in schema_of(func).returns)
            has_known = any(isinstance(leaf, torch.Tensor) and leaf in self._known for leaf in operands)
            is_whole = keeps and has_known and all(map(self.holds, operands))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                if is_whole:
                    self._known[tensor] = True
                elif tensor in self._known:  # changed in place
                    del self._known[tensor]
        return is_whole
