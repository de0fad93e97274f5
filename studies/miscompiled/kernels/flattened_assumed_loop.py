"""A flattened loop nest believes an assumption made on a branch that is not taken, and runs an empty inner loop.

Report: triton-lang/triton#11519, fixed by #11521.
Bad: 3.6.0 to 3.8.0 (3.4.0 and 3.5.1 are right). Good from: 3.9.0. Capability: any. num_warps, num_stages: any.
Fault: wrong values, in every schedule, for m = 4 and n = 0. PTX of the bad release: the count is `max(n, 1) * m` on
every path; of the good one: `n < 1` is tested where m is not 0.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/11519"
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (90, 80, 100, 120)
FAULT = "value"


@triton.jit
def count_iterations(out_ptr, m, n):
    if m == 0:
        tl.assume(n > 0)
        tl.store(out_ptr + 1, 7)
    count = 0
    for _ in tl.range(0, m, flatten=True):
        for _ in tl.range(0, n):
            count += 1
    tl.store(out_ptr, count)


def arguments():
    return 4, 0


def launch(m, n):
    out = torch.full((2,), -1, dtype=torch.int32)
    count_iterations[(1,)](out, m, n, num_warps=1)
    return out


def reference(m, n):
    return torch.tensor([m * n, 7 if m == 0 else -1], dtype=torch.int32)


def agrees(actual, expected):
    return torch.equal(actual, expected)
