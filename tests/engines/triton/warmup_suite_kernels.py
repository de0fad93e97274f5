"""A softmax of rows with as many programs as the GPU holds, from the resources of the compiled kernel."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportArgumentType=false

from typing import Any

import torch
import triton
import triton.language as tl

WARPS = 8


@triton.jit
def softmax_kernel(x, y, rows, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        values = tl.load(x + row * COLUMNS + columns, mask=columns < COLUMNS, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, 0))
        tl.store(y + row * COLUMNS + columns, powers / tl.sum(powers, 0), mask=columns < COLUMNS)


def softmax(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    rows, columns = x.shape
    y = torch.empty_like(x)
    tensors = (x, y)
    options: dict[str, Any] = {"COLUMNS": columns, "BLOCK": triton.next_power_of_2(columns), "num_warps": WARPS}
    kernel: Any = softmax_kernel.warmup(*tensors, rows, grid=(1,), **options)
    kernel._init_handles()
    driver: Any = triton.runtime.driver.active
    properties = driver.utils.get_device_properties(driver.get_current_device())
    resident = properties["max_num_regs"] // (kernel.n_regs * properties["warpSize"] * WARPS)
    resident = min(resident, properties["max_shared_mem"] // max(1, kernel.metadata.shared))
    programs = min(rows, resident * properties["multiprocessor_count"])
    kernel[(programs, 1, 1)](*tensors, rows, columns, options["BLOCK"])
    return y
