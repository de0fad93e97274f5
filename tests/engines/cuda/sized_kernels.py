"""Kernels for `sized`; imported only in workers, after they emulate a device."""

from typing import Any

import torch
import triton

from suites.planted.kernels.too_much_shared_memory import product_kernel

WIDE = triton.Config({"TILE": 128, "DEPTH": 64}, num_stages=5)
"""Needs at least 128 KiB."""
WIDER = triton.Config({"TILE": 128, "DEPTH": 64}, num_stages=6)
NARROW = triton.Config({"TILE": 32, "DEPTH": 16}, num_stages=2)

DEEP = triton.Config({"TILE": 128, "DEPTH": 64}, num_stages=4)
"""Needs 96 KiB on compute capability 12.0, and 128 KiB on 9.0, whose warp groups multiply out of shared memory."""

second_fits: Any = triton.autotune(configs=[WIDE, NARROW], key=["D"])(product_kernel)
none_fits: Any = triton.autotune(configs=[WIDE, WIDER], key=["D"])(product_kernel)
fits_there: Any = triton.autotune(configs=[DEEP], key=["D"])(product_kernel)


def product(x: torch.Tensor, w: torch.Tensor, kernel: Any) -> torch.Tensor:
    rows, columns = x.shape
    y = torch.empty_like(x)
    kernel[lambda config: (triton.cdiv(rows, config["TILE"]), triton.cdiv(columns, config["TILE"]))](
        x.contiguous(), w.contiguous(), y, rows, columns
    )
    return y
