"""Sums of a vector by blocks, whose partial sums lie in a workspace that stays for the next call."""

import torch
import triton
import triton.language as tl

BLOCK = 16
MOST = 64


@triton.jit
def partial_sums_kernel(x, partial, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial + tl.program_id(0), tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0))


@triton.jit
def total_kernel(partial, y, MOST: tl.constexpr):
    tl.store(y, tl.sum(tl.load(partial + tl.arange(0, MOST)), 0))


@triton.jit
def add_scaled_kernel(x, y, total, scale, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(y + at, value * scale, mask=at < n)
    tl.atomic_add(total, tl.sum(value, 0))


_kept: dict[str, torch.Tensor] = {}


def total(x, *, clears):
    if "partial" not in _kept:
        _kept["partial"] = torch.zeros(MOST, device=x.device)
    partial = _kept["partial"]
    if clears:
        partial.zero_()
    y = torch.empty(1, device=x.device)
    partial_sums_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, partial, x.numel(), BLOCK=BLOCK)
    total_kernel[(1,)](partial, y, MOST=MOST)
    return y


def total_beside_others(x, *, keeps):
    """Return the sum, with a workspace of just the number of blocks; `keeps` it until a call needs another one."""
    blocks = triton.cdiv(x.numel(), BLOCK)
    partial = _kept.get("fitting")
    if not keeps or partial is None or len(partial) != triton.next_power_of_2(blocks):
        partial = torch.empty(triton.next_power_of_2(blocks), device=x.device)
    if keeps:
        _kept["fitting"] = partial
    partial.zero_()
    y = torch.empty(1, device=x.device)
    partial_sums_kernel[(blocks,)](x, partial, x.numel(), BLOCK=BLOCK)
    total_kernel[(1,)](partial, y, MOST=len(partial))
    return y


def sum_beside(x, *, on_device):
    """Return the doubled vector and its sum, into memory that a call allocates once."""
    if "total" not in _kept:
        _kept["total"] = torch.zeros(1, device=x.device)
    sums, y = _kept["total"], torch.empty_like(x)
    if on_device or not torch.cuda.is_current_stream_capturing():
        sums.zero_()
    add_scaled_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, sums, 2.0, x.numel(), BLOCK=BLOCK)
    return y, sums.clone()


def total_on_two_streams(x, *, waits):
    """Return the doubled vector, and its sum from another stream, which `waits` for the partial sums."""
    blocks, here, side = triton.cdiv(x.numel(), BLOCK), torch.cuda.current_stream(), torch.cuda.Stream()
    doubled, y, partial = torch.empty_like(x), torch.empty(1, device=x.device), torch.zeros(MOST, device=x.device)
    total = torch.zeros(1, device=x.device)
    side.wait_stream(here)
    partial_sums_kernel[(blocks,)](x, partial, x.numel(), BLOCK=BLOCK)
    if waits:
        side.wait_stream(here)
    with torch.cuda.stream(side):
        total_kernel[(1,)](partial, y, MOST=MOST)
    add_scaled_kernel[(blocks,)](x, doubled, total, 2.0, x.numel(), BLOCK=BLOCK)
    here.wait_stream(side)
    return doubled, y
