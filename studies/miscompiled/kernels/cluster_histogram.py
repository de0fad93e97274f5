"""In a program of two CTAs each CTA counts its half of the values and stores that as the histogram of all.

Report: triton-lang/triton#11775.
Bad: seen in 3.4.0 to 3.8.0. Good from: 3.9.0. Capability: 90 and above. num_ctas: 2.
Fault: wrong counts, in every schedule. PTX of the bad release: `atom...shared.add`, `bar.sync 0`, `ld.shared` of the
CTA's own counters; the good one has `barrier.cluster` and adds up the counters of both CTAs (`mapa.shared::cluster` 0
and 1).
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/11775"
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (90, 100, 120)
FAULT = "value"


@triton.jit
def count_values(x_ptr, out_ptr, N: tl.constexpr, C: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, C), tl.histogram(tl.load(x_ptr + tl.arange(0, N)), C))


def arguments():
    return (torch.randint(32, (512,), dtype=torch.int32, generator=torch.Generator().manual_seed(1)),)


def launch(x):
    out = torch.full((32,), -1, dtype=torch.int32)
    count_values[(1,)](x, out, N=512, C=32, num_warps=4, num_ctas=2)
    return out


def reference(x):
    return torch.bincount(x, minlength=32).int()


def agrees(actual, expected):
    return torch.equal(actual, expected)
