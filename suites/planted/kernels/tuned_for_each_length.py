"""Doubles x in tiles of autotuned size; of two kernels one has the length in its key."""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 16})]


@triton.jit
def double_all(x, y, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, 2.0 * tl.load(x + o, mask=o < T), mask=o < T)


for_each_kernel = triton.autotune(configs=CONFIGS, key=["T"])(double_all)
once_kernel = triton.autotune(configs=CONFIGS, key=[])(double_all)


def doubled(x: torch.Tensor, *, for_each: bool) -> torch.Tensor:
    y = torch.empty_like(x)
    kernel = for_each_kernel if for_each else once_kernel
    kernel[lambda meta: (triton.cdiv(x.shape[0], meta["BLOCK"]),)](x, y, x.shape[0])
    return y
