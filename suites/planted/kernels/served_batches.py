"""Batches that CUDA graphs serve: one graph for each batch size, or one for each layer, in one memory pool."""

import torch
import triton
import triton.language as tl

SIZES = (8, 4, 2, 1)


@triton.jit
def attend_kernel(q, cache, lengths, y, longest):
    row = tl.program_id(0)
    length, total = tl.load(lengths + row), 0.0
    for place in range(longest):
        total += tl.load(cache + place, mask=place < length, other=0.0)
    tl.store(y + row, tl.load(q + row) * total)


@triton.jit
def prefix_kernel(cache, prefix, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(prefix + at, tl.cumsum(tl.load(cache + at, mask=at < n, other=0.0), 0), mask=at < n)


@triton.jit
def layer_kernel(q, prefix, lengths, y):
    row = tl.program_id(0)
    tl.store(y + row, tl.load(q + row) * tl.load(prefix + tl.load(lengths + row) - 1))


@triton.jit
def double_kernel(x, y):
    tl.store(y + tl.program_id(0), 2 * tl.load(x + tl.program_id(0)))


def serve(q, cache, lengths, *, bakes_length):
    """Return `q` times the sum of as much of the cache as each length says, padded to a batch size that has a graph."""
    static_q, static_lengths = q.new_zeros(SIZES[0]), lengths.new_ones(SIZES[0])
    out, pool, graphs = q.new_zeros(SIZES[0]), torch.cuda.graph_pool_handle(), {}
    longest = int(static_lengths.max()) if bakes_length else len(cache)
    for n in SIZES:
        graphs[n] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[n], pool=pool):
            y = q.new_empty(n)
            attend_kernel[(n,)](static_q, cache, static_lengths, y, longest)
            out[:n].copy_(y)
    rows = len(q)
    static_q[:rows].copy_(q)
    static_lengths[:rows].copy_(lengths)
    graphs[min(n for n in SIZES if n >= rows)].replay()
    return out[:rows].clone()


def decode(q, cache, lengths, *, holds_plan):
    """Return twice `serve`, by a plan that is made once, and two steps of a layer and a head that use it."""
    out, pool = torch.zeros_like(q), torch.cuda.graph_pool_handle()
    plan, layer, head = (torch.cuda.CUDAGraph() for _ in range(3))
    with torch.cuda.graph(plan, pool=pool):
        prefix = torch.empty_like(cache)
        prefix_kernel[(1,)](cache, prefix, len(cache), BLOCK=triton.next_power_of_2(len(cache)))
    with torch.cuda.graph(layer, pool=pool):
        state = torch.empty_like(q)
        layer_kernel[(len(q),)](q, prefix, lengths, state)
    held = prefix if holds_plan else None
    del prefix
    with torch.cuda.graph(head, pool=pool):
        doubled = torch.empty_like(q)
        double_kernel[(len(q),)](state, doubled)
        out.copy_(doubled)
    for graph in (plan, layer, head, layer, head):
        graph.replay()
    del held
    return out
