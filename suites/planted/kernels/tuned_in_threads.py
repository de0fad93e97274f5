"""Doubles x in tiles of autotuned size, with and without a lock around the call."""

import threading
from contextlib import nullcontext

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 16})]
LOCK = threading.Lock()


@triton.autotune(configs=CONFIGS, key=[])
@triton.jit
def double_kernel(x, y, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, 2.0 * tl.load(x + o, mask=o < T), mask=o < T)


def doubled(x: torch.Tensor, *, locks: bool) -> torch.Tensor:
    y = torch.empty_like(x)
    with LOCK if locks else nullcontext():
        double_kernel[lambda meta: (triton.cdiv(x.shape[0], meta["BLOCK"]),)](x, y, x.shape[0])
    return y
