"""Two tl.dot of one iteration that add to one accumulator run before the one they depend on has ended.

Report: triton-lang/triton#10821, fixed by #10858.
Bad: seen in 3.4.0 to 3.8.0. Good from: 3.9.0. Capability: 100 (and 103). num_warps: 4; num_stages: 3.
Fault: wrong values, in every schedule that lets the asynchronous matrix instructions end late. The pipeliner gives
the two dots two accumulators in tensor memory and different stages: the TTGIR has `ttng.tmem_load %acc0` directly
after the asynchronous `ttng.tc_gen5_mma ... %acc0`, with no `ttng.wait_barrier` between (PTX: `tcgen05.mma`,
`tcgen05.commit`, `tcgen05.ld` of the same columns). The good release has one accumulator and no load of it before the
end.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/10821"
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (100,)
FAULT = "tensor memory race"


@triton.jit
def two_products(a_ptr, c_ptr, b_ptr, d_ptr, out_ptr, K, M: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, B)
    acc = tl.zeros((M, N), tl.float32)
    for at in range(0, K, B):
        left, right = m[:, None] * K + at + k[None, :], (at + k)[:, None] * N + n[None, :]
        acc = tl.dot(tl.load(a_ptr + left), tl.load(b_ptr + right), acc)
        acc = tl.dot(tl.load(c_ptr + left), tl.load(d_ptr + right), acc)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc)


def arguments():
    random = torch.Generator().manual_seed(1)
    shapes = ((64, 256), (64, 256), (256, 64), (256, 64))
    return tuple(torch.randn(*shape, generator=random).half() for shape in shapes)


def launch(a, c, b, d):
    out = torch.full((64, 64), float("nan"))
    two_products[(1,)](a, c, b, d, out, a.shape[1], M=64, N=64, B=32, num_warps=4, num_stages=3)
    return out


def reference(a, c, b, d):
    return a.double() @ b.double() + c.double() @ d.double()


def agrees(actual, expected):
    return torch.allclose(actual.double(), expected, atol=1e-3)
