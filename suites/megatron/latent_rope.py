"""Rotary embedding of queries, keys and values of multi-head latent attention, in Megatron's fused kernels.

Sequences are whole batches, or packed.  With context parallelism a rank has two slices of each sequence: as many tokens
from its beginning as from its end.
"""

from harness.suite import Dim, Draw, groups, op, segments, tensor

LIBRARY = {"requires": ("megatron-core",), "stubs": {"megatron": "megatron_stubs.py"}}
HEADS = {"H": Dim(low=1, high=40), "E": groups(4, 8, 16, 32, 64)}
ANGLES = {"grad": False, "contiguous": True, "draw": Draw.UNIT}
BATCH = {"S": Dim(low=1, high=64), "B": Dim(low=1, high=4)}
PACKED = {"U": Dim(low=1, high=64), "W": groups(1, 2), "N": groups(1, 2, 3), "C": groups(1, 2, 4)}


def is_of_this_rank(at):
    return at["rank"] < at["C"] and (at["C"] == 1 or at["W"] == 2)


@op(
    **LIBRARY,
    dims={**BATCH, **HEADS, "K": Dim(low=1, high=128)},
    inputs={
        "q": tensor("S", "B", "H", "K+E", contiguous=True),
        "cos": tensor("S", "E", **ANGLES),
        "sin": tensor("S", "E", **ANGLES),
    },
    apart=("B", "H"),
)
def queries(q, cos, sin, K, E):
    from megatron.core.fusions.fused_mla_yarn_rope_apply import fused_apply_mla_rope_for_q

    return fused_apply_mla_rope_for_q(q.clone(), cos[:, None, None], sin[:, None, None], K, E)


@queries.reference
def queries_reference(q, cos, sin, K):
    return with_turned_end(q, cos[:, None, None], sin[:, None, None], K)


@op(
    **LIBRARY,
    dims={**PACKED, **HEADS, "K": Dim(low=1, high=128)},
    inputs={
        "q": tensor("U*W", "H", "K+E", contiguous="rows"),
        "cos": tensor("U*W*C", "E", **ANGLES),
        "sin": tensor("U*W*C", "E", **ANGLES),
        "bounds": segments("U", "N", dtype="int32"),
    },
    options={"rank": (0, 1, 2, 3)},
    apart=("H",),
    where=is_of_this_rank,
)
def packed_queries(q, cos, sin, bounds, rank, K, E, W, C):
    from megatron.core.fusions.fused_mla_yarn_rope_apply import fused_apply_mla_rope_for_q

    bounds = bounds * (W * C)
    return fused_apply_mla_rope_for_q(q.clone(), cos[:, None, None], sin[:, None, None], K, E, bounds, rank, C)


@packed_queries.reference
def packed_queries_reference(q, cos, sin, bounds, rank, K, W, C):
    at = positions(bounds * W, rank, C)
    return with_turned_end(q, cos[at][:, None], sin[at][:, None], K)


@op(
    **LIBRARY,
    dims={**PACKED, **HEADS, "K": groups(16, 32, 128), "V": groups(16, 32, 128)},
    inputs={
        "kv": tensor("U*W", "H", "K+V", contiguous="rows"),
        "shared": tensor("U*W", "E", contiguous="rows"),
        "cos": tensor("U*W*C", "E", **ANGLES),
        "sin": tensor("U*W*C", "E", **ANGLES),
        "bounds": segments("U", "N", dtype="int32"),
    },
    options={"rank": (0, 1, 2, 3)},
    where=is_of_this_rank,
)
def packed_keys_and_values(kv, shared, cos, sin, bounds, rank, K, V, E, W, C):
    from megatron.core.fusions.fused_mla_yarn_rope_apply import fused_apply_mla_rope_for_kv

    tables = cos[:, None, None], sin[:, None, None]
    return fused_apply_mla_rope_for_kv(kv, shared[:, None], *tables, E, K, V, bounds * (W * C), rank, C)


@packed_keys_and_values.reference
def packed_keys_and_values_reference(kv, shared, cos, sin, bounds, rank, K, W, C):
    import torch

    at = positions(bounds * W, rank, C)
    turned = with_turned_end(shared, cos[at], sin[at], 0)[:, None].expand(-1, kv.shape[1], -1)
    return torch.cat((kv[..., :K], turned), -1), kv[..., K:]


def with_turned_end(x, cos, sin, kept):
    """Turn the pairs of neighbours after the kept numbers, and put all firsts before all seconds."""
    import torch

    end = x[..., kept:]
    end = torch.cat((end[..., ::2], end[..., 1::2]), -1)
    first, second = end.chunk(2, -1)
    return torch.cat((x[..., :kept], end * cos + torch.cat((-second, first), -1) * sin), -1)


def positions(bounds, rank, ranks):
    """Return the place of each token of this rank in its sequence."""
    import torch

    lengths = bounds.diff()
    place = torch.arange(int(bounds[-1])) - bounds[:-1].repeat_interleave(lengths)
    if ranks == 1:
        return place
    half = (lengths // 2).repeat_interleave(lengths)
    return torch.where(place < half, place + rank * half, place - half + (2 * ranks - rank - 1) * half)
