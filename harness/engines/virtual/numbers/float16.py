"""float32 to float16 and back, to nearest, ties to even: as NumPy does it, but with torch's vector code.

NumPy converts one number at a time, which takes thirty times as long on a large block.  The two differ only in the bits
of some NaNs.  The poison of fresh memory is such a NaN, so NumPy converts blocks with a NaN.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness.engines.torch.torch_seam import plain_torch

Array = NDArray[Any]

SMALL = 2048
"""The number of elements up to which NumPy is as fast."""
INFINITY = 0x7C00
"""The bits of infinity without its sign; larger ones are NaNs."""


def to_half(values: Array) -> Array:
    """Convert float32 to float16."""
    if not _suits(values, np.float32) or np.isnan(values).any():
        return values.astype(np.float16)
    return _converted(values, torch.float16)


def from_half(halves: Array) -> Array:
    """Convert float16 to float32."""
    if not _suits(halves, np.float16) or (halves.view(np.uint16) & 0x7FFF).max() > INFINITY:
        return halves.astype(np.float32)
    return _converted(halves, torch.float32)


def _suits(values: Array, dtype: type[Any]) -> bool:
    """Return True if torch is faster and can take the block as it is: neither broadcast nor read-only."""
    return values.size > SMALL and values.dtype == dtype and values.flags.c_contiguous and values.flags.writeable


def _converted(values: Array, dtype: torch.dtype) -> Array:
    with plain_torch():
        return torch.from_numpy(values).to(dtype).numpy()
