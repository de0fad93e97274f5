"""Matrix products on the CPU that behave as on a GPU: without reads of gaps between rows, and with `out_dtype`.

On CPUs with AVX-512, torch 2.13 calls oneDNN 3.12 for 16-bit matrices.  It reads a row two elements at a time.  If the
row's length is odd, it multiplies the element after the row by zero, so a NaN there makes a NaN.  A GPU does not read
that element.
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
    """Return the operands, with copies of those that have gaps; `func` is the function that torch hands to a mode."""
    return tuple(map(_closed, args)) if func in PRODUCTS else args


def _closed(value: Any) -> Any:
    return value.contiguous() if isinstance(value, torch.Tensor) and _has_gaps(value) else value


def _has_gaps(value: torch.Tensor) -> bool:
    """Return True if other elements are between the tensor's, whatever the order of its axes."""
    if value.dtype not in HALVES or not value.numel():
        return False
    span = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True)) + 1
    return span > value.numel()


WIDENED = frozenset({torch.mm, torch.addmm, torch.bmm, torch.baddbmm, torch.Tensor.mm, torch.Tensor.bmm})


def widen(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the call's arguments without `out_dtype`, with operands of that type.

    The result is the same, since a product of two 16-bit numbers is exact in float32.
    """
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
