"""tl.softmax along a dimension other than 0 divides each element by another row's sum.

Report: triton-lang/triton#11406 (and the notes of Triton 3.9.0, "Wrong results").
Bad: every release up to 3.8.0. Good from: 3.9.0. Capability: any (80, 90, 100, 120). num_warps, num_stages: any.
Fault: wrong values, in every schedule. The front end reduces without keeping the dimension, so the maxima and sums,
one per row, are broadcast along the rows. The TTIR has `tt.expand_dims ... {axis = 0}` where 3.9.0 has `{axis = 1}`,
and the PTX of the bad release moves the maxima and the sums through shared memory (3 bar.sync) to lay them out along
the columns.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/11406"
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (90, 80, 100, 120)
FAULT = "value"


@triton.jit
def softmax_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(out_ptr + at, tl.softmax(tl.load(x_ptr + at), 1))


def arguments():
    x = torch.randn(16, 16, generator=torch.Generator().manual_seed(1))
    return (x,)


def launch(x):
    out = torch.full_like(x, float("nan"))
    softmax_kernel[(1,)](x, out, N=16, num_warps=4)
    return out


def reference(x):
    return torch.softmax(x.double(), 1)


def agrees(actual, expected):
    return torch.allclose(actual.double(), expected, atol=1e-5)
