"""float32 to float16 and back, to nearest, ties to even: as NumPy does it, but with the processor's instructions.

NumPy converts one number at a time, which on a large block takes thirty times as long as torch's vector code.  The two
differ in the bits of some NaNs alone; the pattern of fresh memory is one, so blocks with a NaN are left to NumPy.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness.ops.execution import plain_torch

Array = NDArray[Any]

SMALL = 2048
"""Up to so many elements NumPy is as fast."""
INFINITY = 0x7C00


def to_half(values: Array) -> Array:
    """float32 as float16."""
    if not _suits(values, np.float32) or np.isnan(values).any():
        return values.astype(np.float16)
    return _converted(values, torch.float16)


def from_half(halves: Array) -> Array:
    """float16 as float32."""
    if not _suits(halves, np.float16) or (halves.view(np.uint16) & 0x7FFF).max() > INFINITY:
        return halves.astype(np.float32)
    return _converted(halves, torch.float32)


def _suits(values: Array, dtype: type[Any]) -> bool:
    """Whether torch can take the block as it is, and is worth it: neither broadcast nor somebody's read-only bytes."""
    return values.size > SMALL and values.dtype == dtype and values.flags.c_contiguous and values.flags.writeable


def _converted(values: Array, dtype: torch.dtype) -> Array:
    with plain_torch():
        return torch.from_numpy(values).to(dtype).numpy()
