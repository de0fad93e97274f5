"""A flattened loop nest runs the body of an inner loop whose upper bound is below its lower one.

Report: triton-lang/triton#11656, fixed by #11607 and #11688.
Bad: seen in 3.4.0 to 3.8.0. Good from: 3.9.0. Capability: any. num_warps, num_stages: any.
Fault: a wrong value, in every schedule. The pass tests the inner trip count for being 0, not for being at most 0. PTX
of the bad release: `setp.eq.b32 %p, upper, lower` chooses 0, otherwise `max(upper - lower, 1) * 4`; of the good one:
`setp.gt.s32`.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/11656"
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (90, 80, 100, 120)
FAULT = "value"


@triton.jit
def count_iterations(out_ptr, lower, upper):
    count = 0
    for _ in tl.range(0, 4, flatten=True):
        for _ in tl.range(lower, upper):
            count += 1
    tl.store(out_ptr, count)


def arguments():
    return 5, 3


def launch(lower, upper):
    out = torch.full((1,), -1, dtype=torch.int32)
    count_iterations[(1,)](out, lower, upper, num_warps=1)
    return out


def reference(lower, upper):
    return torch.tensor([4 * len(range(lower, upper))], dtype=torch.int32)


def agrees(actual, expected):
    return torch.equal(actual, expected)
