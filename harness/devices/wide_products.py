"""Matrix products with a wider result, `torch.mm(a, b, out_dtype=torch.float32)`: in torch 2.13 on CUDA alone."""

from typing import Any

import torch

PRODUCTS = frozenset({torch.mm, torch.addmm, torch.bmm, torch.baddbmm, torch.Tensor.mm, torch.Tensor.bmm})


def widen(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same call without `out_dtype`, its operands in that type: a product of halves is exact in float32."""
    if func not in PRODUCTS:
        return args, kwargs
    named = [value for value in (*args, kwargs.get("out_dtype")) if isinstance(value, torch.dtype)]
    if not named:
        return args, kwargs
    operands = tuple(_in(value, named[0]) for value in args if not isinstance(value, torch.dtype))
    rest = {name: value if name == "out" else _in(value, named[0]) for name, value in kwargs.items()}
    return operands, {name: value for name, value in rest.items() if name != "out_dtype"}


def _in(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, torch.Tensor) else value
