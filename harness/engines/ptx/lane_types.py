"""The NumPy types of PTX's scalar types."""

from collections.abc import Mapping
from typing import Any

import numpy as np

DTYPES: Mapping[str, type[Any]] = {
    "pred": np.bool_,
    "f32": np.float32,
    "f64": np.float64,
    **{f"{sign}{bits}": getattr(np, f"uint{bits}") for sign in "bu" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": getattr(np, f"int{bits}") for bits in (8, 16, 32, 64)},
}
