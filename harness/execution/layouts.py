"""Tensors of equal values in other memory layouts.

The memory around and between the elements holds NaN, or the largest integer, so a lane that lands there shows in
results.
"""

from collections.abc import Callable, Collection, Mapping
from math import prod

import torch

from harness.model.case import FEWEST_DIMS, Layout

OFFSET_ELEMENTS = 67
"""Odd, so that an offset tensor's address is not a multiple of 16 bytes and Triton specialises for that."""
UNIT_STRIDE = 31
"""The stride of a dim of one element in an offset tensor: odd, and no stride that another dim explains."""
GAP_ELEMENTS = 5
STEP = 2
"""The distance of neighbours in a stepped tensor, in elements."""


def lay_out(values: torch.Tensor, layout: Layout) -> torch.Tensor:
    """Return the same values in this memory layout, if the tensor has enough dims for it.

    A repeated or an expanded tensor keeps only some of the values.
    """
    return values if values.dim() < FEWEST_DIMS.get(layout, 0) else _LAID_OUT[layout](values)


def broadcast(values: torch.Tensor, axes: Collection[int]) -> torch.Tensor:
    """Return the first element along the axes, and everything along the others."""
    return values[tuple(slice(1) if axis in axes else slice(None) for axis in range(values.dim()))].contiguous()


def _offset(values: torch.Tensor) -> torch.Tensor:
    count = values.numel()
    around = _filler(count + 2 * OFFSET_ELEMENTS, values)
    around[OFFSET_ELEMENTS : OFFSET_ELEMENTS + count] = values.reshape(-1)
    strides = [
        UNIT_STRIDE if extent == 1 else stride for extent, stride in zip(values.shape, values.stride(), strict=True)
    ]
    strides[-1:] = [1] if strides else []  # code may ask whether elements of a row are neighbours, even of one
    return around.as_strided(values.shape, strides, OFFSET_ELEMENTS)


def _strided(values: torch.Tensor) -> torch.Tensor:
    columns = values.shape[-1]
    rows = prod(values.shape[:-1])
    wide = _filler(rows * (columns + GAP_ELEMENTS), values).view(*values.shape[:-1], columns + GAP_ELEMENTS)
    wide[..., :columns] = values
    return wide[..., :columns]


def _stepped(values: torch.Tensor) -> torch.Tensor:
    wide = _filler(STEP * values.numel(), values).view(*values.shape[:-1], STEP * values.shape[-1])
    wide[..., ::STEP] = values
    return wide[..., ::STEP]


def _batch_strided(values: torch.Tensor) -> torch.Tensor:
    batches, rows, *row = values.shape
    wide = _filler(batches * (rows + 1) * prod(row), values).view(batches, rows + 1, *row)
    wide[:, :rows] = values
    return wide[:, :rows]


def _swapped(values: torch.Tensor, first: int, second: int) -> torch.Tensor:
    return values.transpose(first, second).contiguous().transpose(first, second)


def _permuted(values: torch.Tensor) -> torch.Tensor:
    backwards = tuple(reversed(range(values.dim())))
    return values.permute(backwards).contiguous().permute(backwards)


def _repeated(values: torch.Tensor) -> torch.Tensor:
    return values[:1].clone().expand(values.shape) if values.numel() else values


def _expanded(values: torch.Tensor) -> torch.Tensor:
    return values.reshape(-1)[:1].reshape(()).expand(values.shape) if values.numel() else values


_LAID_OUT: Mapping[Layout, Callable[[torch.Tensor], torch.Tensor]] = {
    Layout.CONTIGUOUS: lambda values: values,
    Layout.OFFSET: _offset,
    Layout.STRIDED: lambda values: _strided(values) if values.dim() > 1 else _stepped(values),
    Layout.TRANSPOSED: lambda values: _swapped(values, -3, -2),
    Layout.BATCH_STRIDED: _batch_strided,
    Layout.STEPPED: _stepped,
    Layout.COLUMN_MAJOR: lambda values: _swapped(values, -2, -1),
    Layout.PERMUTED: _permuted,
    Layout.REPEATED: _repeated,
    Layout.BROADCAST: lambda values: values,  # `broadcast` knows the axes
    Layout.EXPANDED: _expanded,
}


def poison(values: torch.Tensor, cells: torch.Tensor) -> None:
    """Overwrite cells that no code may read, by a mask, with NaN, or for integers with the largest number."""
    as_stored = values.view(torch.uint8) if values.dtype.is_floating_point and values.element_size() == 1 else values
    as_stored[cells] = _filler(1, values).view(as_stored.dtype)


def nan_byte(dtype: torch.dtype) -> int:
    """Return the byte of a NaN of a type with 8 bits: that of a negative zero in those without one, and else 255."""
    return 0x80 if dtype in {torch.float8_e4m3fnuz, torch.float8_e5m2fnuz} else 0xFF


def _filler(count: int, like: torch.Tensor) -> torch.Tensor:
    dtype, device = like.dtype, like.device
    if dtype is torch.bool:
        return torch.ones(count, dtype=dtype, device=device)
    if not dtype.is_floating_point:
        return torch.full((count,), torch.iinfo(dtype).max, dtype=dtype, device=device)
    if dtype.itemsize == 1:  # torch 2.13 cannot fill them
        return torch.full((count,), nan_byte(dtype), dtype=torch.uint8, device=device).view(dtype)
    return torch.full((count,), float("nan"), dtype=dtype, device=device)
