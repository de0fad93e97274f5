"""The sum of x by atomics into a cell of zeros; of two kernels one declares that tuning must zero the cell."""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 16})]


@triton.jit
def add_up(x, total, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(x + o, mask=o < T, other=0.0), axis=0))


add_up_kernel = triton.autotune(configs=CONFIGS, key=[])(add_up)
resetting_add_up_kernel = triton.autotune(configs=CONFIGS, key=[], reset_to_zero=["total"])(add_up)


def total(x: torch.Tensor, *, resets: bool) -> torch.Tensor:
    y = torch.zeros(1, dtype=x.dtype, device=x.device)
    kernel = resetting_add_up_kernel if resets else add_up_kernel
    kernel[lambda meta: (triton.cdiv(x.shape[0], meta["BLOCK"]),)](x, y, x.shape[0])
    return y
