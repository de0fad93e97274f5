"""No barrier between the caller's last read of shared memory and the first write of the function that it calls.

Report: triton-lang/triton#11326.
Bad: seen in 3.4.0 to 3.8.0. Good from: 3.9.0. Capability: any. num_warps: 2 or more (4 here); num_stages: any.
Fault: a race in shared memory. Caller and callee reduce through the same words. The callee ends in a barrier, so that
the barrier analysis takes a call for a barrier, and never compares the caller's pending read with the callee's first
write: a warp that is ahead stores its partial sum of y where a slower warp still reads the partial sums of x. PTX of
the bad release: `ld.shared` then `call.uni`, and `st.shared` at the callee's start; the good one has `bar.sync 0`
before `call.uni`.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/11326"
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (90, 80, 100, 120)
FAULT = "shared race"


@triton.jit(noinline=True)
def synchronised_sum(x_ptr, N: tl.constexpr):
    total = tl.sum(tl.load(x_ptr + tl.arange(0, N)), 0)
    tl.debug_barrier()
    return total


@triton.jit
def scale_and_shift(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    scale = tl.sum(tl.load(x_ptr + i), 0)
    shift = synchronised_sum(y_ptr, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * scale + shift)


def arguments():
    return torch.arange(512, dtype=torch.float32) / 64, torch.arange(512, dtype=torch.float32).flip(0) * 8


def launch(x, y):
    out = torch.full_like(x, float("nan"))
    scale_and_shift[(1,)](x, y, out, N=512, num_warps=4)
    return out


def reference(x, y):
    return x.double() * x.double().sum() + y.double().sum()


def agrees(actual, expected):
    return torch.allclose(actual.double(), expected, rtol=1e-5)
