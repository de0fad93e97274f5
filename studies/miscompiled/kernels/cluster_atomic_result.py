"""In a program of two CTAs the second one reads the result of an atomic from its own shared memory, where it was never
written.

Report: triton-lang/triton#10477 (for atomic_cas; atomic_add alike).
Bad: seen in 3.4.0 to 3.7.1. Good from: 3.9.0 (3.8.0 has the next fault, cluster_exit.py). Capability: 90 and above.
num_ctas: 2.
Fault: a read of uninitialised shared memory and wrong values, in every schedule. CTA 0 alone runs the atomic and
stores the result (`@%p1 st.shared`); after `barrier.cluster` each CTA does `ld.shared` of its own word. The good
release reads CTA 0's word (`mapa.shared::cluster ..., 0`, `ld.shared::cluster`).
"""

import torch
import triton
import triton.language as tl

REPORT = "https://github.com/triton-lang/triton/issues/10477"
LAST_BAD, FIRST_GOOD = "3.7.1", "3.9.0"
CAPABILITIES = (90, 100, 120)
FAULT = "uninitialised shared"


@triton.jit
def take_ticket(ticket_ptr, out_ptr, N: tl.constexpr):
    ticket = tl.atomic_add(ticket_ptr, 1)
    i = tl.arange(0, N)
    tl.store(out_ptr + i, i + ticket)


def arguments():
    return (torch.full((1,), 1000, dtype=torch.int32),)


def launch(ticket):
    out = torch.full((512,), -1, dtype=torch.int32)
    take_ticket[(1,)](ticket.clone(), out, N=512, num_warps=4, num_ctas=2)
    return out


def reference(ticket):
    return torch.arange(512, dtype=torch.int32) + ticket


def agrees(actual, expected):
    return torch.equal(actual, expected)
