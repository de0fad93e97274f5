"""The numbers that quantised tensors stand for, as definitions need them."""

from collections.abc import Mapping
from typing import Literal

import torch

Packed = Literal["int4", "uint4", "fp4"]
"""Two numbers in each byte, the one in the low bits first: two's complement, unsigned, or E2M1."""

FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""The magnitudes of E2M1 by their three low bits; the fourth bit is the sign (OCP MX formats 1.0, section 5.3.3)."""
E8M0_BIAS = 127
E8M0_NAN = 255

_TABLES: Mapping[Packed, tuple[float, ...]] = {
    "uint4": tuple(map(float, range(16))),
    "int4": (*map(float, range(8)), *map(float, range(-8, 0))),
    "fp4": (*FP4_VALUES, *(-value for value in FP4_VALUES)),
}


def dequantised(
    stored: torch.Tensor,
    scale: torch.Tensor,
    *,
    packed: Packed | None = None,
    group: int | tuple[int, int] | None = None,
    zero: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return `(stored - zero) * scale`; see `harness.suite.dequantised`."""
    factors = _scales(scale)
    values = stored.to(factors.dtype) if packed is None else _unpacked(stored, packed, factors.dtype)
    if zero is not None:
        values = values - _spread(zero.to(factors.dtype), values, group)
    return values * _spread(factors, values, group)


def _scales(scale: torch.Tensor) -> torch.Tensor:
    """Return scales as floating-point numbers; bytes are exponents (E8M0)."""
    if scale.dtype is torch.uint8:
        exponents = scale.to(torch.float64) - E8M0_BIAS
        return torch.exp2(exponents).masked_fill(scale == E8M0_NAN, torch.nan)
    return scale.to(torch.float64) if scale.dtype is torch.float8_e8m0fnu else scale


def _unpacked(stored: torch.Tensor, packed: Packed, dtype: torch.dtype) -> torch.Tensor:
    byte = stored.view(torch.uint8).to(torch.int64)
    pairs = torch.stack((byte & 15, byte >> 4), dim=-1).flatten(-2)
    return torch.tensor(_TABLES[packed], dtype=dtype)[pairs]


def _spread(scales: torch.Tensor, values: torch.Tensor, group: int | tuple[int, int] | None) -> torch.Tensor:
    """Return a scale for each value: of its group along the last axis, of its block, or by broadcasting."""
    match group:
        case None:
            return scales
        case int(columns):
            return scales.repeat_interleave(columns, dim=-1)[..., : values.shape[-1]]
        case (rows, columns):
            by_row = scales.repeat_interleave(rows, dim=-2)[..., : values.shape[-2], :]
            return by_row.repeat_interleave(columns, dim=-1)[..., : values.shape[-1]]
