"""Adds one to x in place, in tiles of autotuned size; of two kernels one declares that tuning must restore x."""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 16})]


@triton.jit
def increment(x, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + o, tl.load(x + o, mask=o < T, other=0.0) + 1.0, mask=o < T)


increment_kernel = triton.autotune(configs=CONFIGS, key=[])(increment)
restoring_increment_kernel = triton.autotune(configs=CONFIGS, key=[], restore_value=["x"])(increment)


def plus_one(x: torch.Tensor, *, restores: bool) -> torch.Tensor:
    y = x.clone()
    kernel = restoring_increment_kernel if restores else increment_kernel
    kernel[lambda meta: (triton.cdiv(y.shape[0], meta["BLOCK"]),)](y, y.shape[0])
    return y
