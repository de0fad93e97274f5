"""Functions of arrays, alike for NumPy's arrays on the CPU and for torch's tensors on a GPU.

Most results are small, and a step of NumPy takes a third of torch's time.  Results that are judged on a GPU stay there
as tensors.  `functions_of` returns NumPy itself, or an object with the same functions for tensors.
"""

import math
from typing import Any

import numpy as np
import torch


class _TensorFunctions:
    """The functions of NumPy that the comparison needs, for tensors."""

    abs = staticmethod(torch.abs)
    broadcast_to = staticmethod(torch.broadcast_to)
    isfinite = staticmethod(torch.isfinite)
    isnan = staticmethod(torch.isnan)
    maximum = staticmethod(torch.maximum)
    sqrt = staticmethod(torch.sqrt)
    square = staticmethod(torch.square)
    stack = staticmethod(torch.stack)
    where = staticmethod(torch.where)
    nan_to_num = staticmethod(torch.nan_to_num)


TENSOR_FUNCTIONS = _TensorFunctions()


def functions_of(values: Any) -> Any:
    """Return the functions for arrays of this kind."""
    return TENSOR_FUNCTIONS if isinstance(values, torch.Tensor) else np


def count(values: Any) -> int:
    """Return the number of elements."""
    return math.prod(values.shape)


def largest(values: Any) -> float:
    """Return the largest magnitude; 0 of no elements, NaN if there is one."""
    return float(functions_of(values).abs(values).max()) if count(values) else 0.0


def sums_of_squares(rows: Any) -> Any:
    """Return the sum of squares of each row."""
    if isinstance(rows, torch.Tensor):
        return torch.linalg.vector_norm(rows, dim=1).square_()  # makes no copy of the rows
    return np.einsum("ij,ij->i", rows, rows)


def zeros(like: Any, shape: int | tuple[int, ...]) -> Any:
    """Return zeros of the type, and at the place, of another array."""
    return like.new_zeros(shape) if isinstance(like, torch.Tensor) else np.zeros(shape, dtype=like.dtype)


def on_cpu(values: Any) -> Any:
    """Return the values as an array of NumPy."""
    return values.cpu().numpy() if isinstance(values, torch.Tensor) else values


def wide(values: torch.Tensor, *, as_tensor: bool = False) -> Any:
    """Return a tensor's values in float64: as an array of NumPy, or as a tensor where they are."""
    values = values.detach().to(torch.float64)
    return values if as_tensor else values.numpy()


def is_tensor(values: Any) -> bool:
    return isinstance(values, torch.Tensor)
