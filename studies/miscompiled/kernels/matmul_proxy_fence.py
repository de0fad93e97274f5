"""No proxy fence between the copies into shared memory and the matrix unit's read of them.

Report: triton-lang/triton#9610, released by #10537 (notes of Triton 3.7.1; seen in pytorch/pytorch#181248).
Bad: seen in 3.4.0 to 3.7.0. Good from: 3.7.1. Capability: 90 and 100. num_warps: 4; num_stages: 3 (2 or more).
Fault: a missing order between the generic proxy (cp.async) and the async proxy (wgmma, tcgen05.mma): the matrix unit
may read old words. PTX of the bad release: `cp.async.wait_group`, `bar.sync 0`, `wgmma.fence`, `wgmma.mma_async`; the
good one has `fence.proxy.async.shared::cta` after the `bar.sync 0`. Values alone show it in no schedule of an engine
without proxies.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/9610"
LAST_BAD, FIRST_GOOD = "3.7.0", "3.7.1"
CAPABILITIES = (90, 100)
FAULT = "proxy"


@triton.jit
def matmul(a_ptr, b_ptr, out_ptr, K, M: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, B)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(0, K, B):
        a = tl.load(a_ptr + m[:, None] * K + at + k[None, :])
        b = tl.load(b_ptr + (at + k)[:, None] * N + n[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc)


def arguments():
    random = torch.Generator().manual_seed(1)
    return torch.randn(64, 256, generator=random).bfloat16(), torch.randn(256, 64, generator=random).bfloat16()


def launch(a, b):
    out = torch.full((64, 64), float("nan"))
    matmul[(1,)](a, b, out, a.shape[1], M=64, N=64, B=64, num_warps=4, num_stages=3)
    return out


def reference(a, b):
    return a.double() @ b.double()


def agrees(actual, expected):
    return torch.allclose(actual.double(), expected, atol=1e-3)
