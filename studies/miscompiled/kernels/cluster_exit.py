"""A CTA ends while another CTA of its cluster still reads its shared memory.

Report: triton-lang/triton#11730, fixed by #10656.
Bad: 3.8.0. Good from: 3.9.0. Capability: 90 and above (a launch failure on 120). num_ctas: 2 (or more).
Fault: an access to the shared memory of a CTA that may have ended. The result of an atomic is read from CTA 0
(`mapa.shared::cluster`, `ld.shared::cluster`), and nothing keeps CTA 0 until then. PTX of the good release:
`barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned` before `ret`.
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/11730"
FIRST_BAD = "3.4.0"  # up to 3.7.1 with the fault of cluster_atomic_result.py
LAST_BAD, FIRST_GOOD = "3.8.0", "3.9.0"
CAPABILITIES = (90, 100, 120)
FAULT = "cluster race"


@triton.jit
def try_lock(lock_ptr, out_ptr, N: tl.constexpr):
    before = tl.atomic_cas(lock_ptr, 0, 1)
    tl.store(out_ptr + tl.arange(0, N), before)


def arguments():
    return (torch.full((1,), 7, dtype=torch.int32),)


def launch(lock):
    out = torch.full((512,), -1, dtype=torch.int32)
    try_lock[(1,)](lock.clone(), out, N=512, num_warps=4, num_ctas=2)
    return out


def reference(lock):
    return lock.expand(512)


def agrees(actual, expected):
    return torch.equal(actual, expected)
