"""The stages of a pipelined descriptor load lie 16 bytes apart in shared memory, where TMA needs 128-byte alignment.

Report: triton-lang/triton#10474, fixed by #10898.
Bad: seen in 3.6.0 to 3.8.0. Good from: 3.9.0. Capability: 90 and above. num_warps: any; num_stages: 3.
Fault: a misaligned shared-memory destination (CUDA: misaligned address), in every schedule. A block of 4 float32 is
16 bytes; the pipeliner gives it a ring of stages without padding. PTX of the bad release:
`cp.async.bulk.tensor.1d.shared` to `global_smem + 16 * stage`; the good one does not pipeline the load and has one
buffer.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/10474"
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (90, 100, 120)
FAULT = "misaligned"


@triton.jit
def scale(x_ptr, out_ptr, n, B: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[n], strides=[1], block_shape=[B])
    for at in tl.range(0, n, B, num_stages=3):
        tl.store(out_ptr + at + tl.arange(0, B), x.load([at]) * 2)


def arguments():
    return (torch.arange(64, dtype=torch.float32),)


def launch(x):
    triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8))
    out = torch.full_like(x, float("nan"))
    scale[(1,)](x, out, x.numel(), B=4, num_warps=1)
    return out


def reference(x):
    return x * 2


def agrees(actual, expected):
    return torch.equal(actual, expected)
