"""Matrix products of 16-bit matrices whose rows have gaps between them, on the CPU.

oneDNN 3.12, which torch 2.13 calls for them on CPUs with AVX-512, takes a row two elements at a time: of a row of odd
length it multiplies what lies behind it by zero, and NaN there makes NaN.  On a GPU nobody reads it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import linear

PRODUCTS: frozenset[Callable[..., Any]] = frozenset(
    {
        linear,
        torch.addmm,
        torch.baddbmm,
        torch.bmm,
        torch.einsum,
        torch.matmul,
        torch.mm,
        torch.Tensor.__matmul__,
        torch.Tensor.__rmatmul__,
        torch.Tensor.addmm,
        torch.Tensor.baddbmm,
        torch.Tensor.bmm,
        torch.Tensor.matmul,
        torch.Tensor.mm,
    }
)
HALVES = frozenset({torch.bfloat16, torch.float16})


def close_gaps(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands, those with gaps copied; `func` is what torch hands to a mode."""
    return tuple(map(_closed, args)) if func in PRODUCTS else args


def _closed(value: Any) -> Any:
    return value.contiguous() if isinstance(value, torch.Tensor) and _has_gaps(value) else value


def _has_gaps(value: torch.Tensor) -> bool:
    """Whether other elements lie between the tensor's, whatever the order of its axes."""
    if value.dtype not in HALVES or not value.numel():
        return False
    span = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True)) + 1
    return span > value.numel()


WIDENED = frozenset({torch.mm, torch.addmm, torch.bmm, torch.baddbmm, torch.Tensor.mm, torch.Tensor.bmm})


def widen(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same call without `out_dtype`, its operands in that type: a product of halves is exact in float32."""
    if func not in WIDENED:
        return args, kwargs
    named = [value for value in (*args, kwargs.get("out_dtype")) if isinstance(value, torch.dtype)]
    if not named:
        return args, kwargs
    operands = tuple(_in(value, named[0]) for value in args if not isinstance(value, torch.dtype))
    rest = {name: value if name == "out" else _in(value, named[0]) for name, value in kwargs.items()}
    return operands, {name: value for name, value in rest.items() if name != "out_dtype"}


def _in(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, torch.Tensor) else value
