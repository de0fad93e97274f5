"""tl.fdiv(..., ieee_rounding=True) divides approximately: the flag is ignored.

Report: triton-lang/triton#10073, fixed by #10074.
Bad: seen in 3.4.0 to 3.7.1. Good from: 3.8.0. Capability: any. num_warps, num_stages: any.
Fault: results up to 2 units in the last place from the correctly rounded quotient. PTX of the bad release:
`div.full.f32`; of the good one: `div.rn.f32`. An engine that rounds `div.full` correctly cannot see it by value: PTX
allows 2 ulp there, so the engine must return a permitted value that is not the nearest one, or report the
instruction. On a GPU 4.6875 / 0.9375 gives 5.0000005 by `div.full`.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/10073"
LAST_BAD, FIRST_GOOD = "3.7.1", "3.8.0"
CAPABILITIES = (90, 80, 100, 120)
FAULT = "approximation"


@triton.jit
def divide(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.fdiv(tl.load(x_ptr + i), tl.load(y_ptr + i), ieee_rounding=True))


def arguments():
    random = torch.Generator().manual_seed(1)
    x, y = torch.rand(128, generator=random) + 0.5, torch.rand(128, generator=random) + 0.5
    x[0], y[0] = 4.6875, 0.9375
    return x, y


def launch(x, y):
    out = torch.full_like(x, float("nan"))
    divide[(1,)](x, y, out, N=128, num_warps=4)
    return out


def reference(x, y):
    return (x.double() / y.double()).float()


def agrees(actual, expected):
    return torch.equal(actual, expected)
