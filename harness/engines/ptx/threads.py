"""What every part of a wave knows: arrays with one element for each thread, warps, and the shape of a launch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
WARP = 32
ROW_TYPES: Mapping[int, type[Any]] = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
"""By width in bits, the type of a row of the register file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchShape:
    """The grid of a launch, its clusters, and the GPU that it pretends to run on."""

    grid: tuple[int, int, int]
    threads: int
    """The threads of a CTA."""
    cluster: int = 1
    """The CTAs of a cluster, along x."""
    sms: int = 1
