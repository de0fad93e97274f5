"""Doubles x in tiles of autotuned size; one of two kernels has a heuristic that replaces the size."""

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 16})]


@triton.jit
def double(x, y, T, BLOCK: tl.constexpr):
    for start in range(0, T, BLOCK):
        o = start + tl.arange(0, BLOCK)
        tl.store(y + o, 2.0 * tl.load(x + o, mask=o < T), mask=o < T)


of_fixed_size = triton.heuristics({"BLOCK": lambda _: 64})(double)
overridden_kernel = triton.autotune(configs=CONFIGS, key=[])(of_fixed_size)
tuned_kernel = triton.autotune(configs=CONFIGS, key=[])(double)


def doubled(x: torch.Tensor, *, overrides: bool) -> torch.Tensor:
    y = torch.empty_like(x)
    (overridden_kernel if overrides else tuned_kernel)[(1,)](x, y, x.shape[0])
    return y
