"""Attention of aiter: of batches and packed sequences, of new tokens behind cached ones, and on pages of keys."""

from itertools import pairwise

from harness.suite import Dim, DType, attention, groups, integers, op, owned, ragged, segments, tensor, tokens

LIBRARY = {"requires": ("amd-aiter",), "stubs": {"aiter": "aiter_stubs.py"}}
HALVES = (DType.BF16, DType.FP16)
NO_CONFIG = ("FileNotFoundError",)
"""How aiter refuses an architecture for which it lists no config."""
HEADS = {"G": groups(1, 2, 3), "R": groups(1, 2, 4), "D": groups(64, 128, 32)}


def seen(queries, keys, *, is_causal, window=0):
    """Return which keys a query sees; the last query belongs to the last key."""
    import torch

    if not is_causal:
        return None
    back = torch.arange(keys) - (torch.arange(queries)[:, None] + keys - queries)
    return (back <= 0) & (back > -window) if window else back <= 0


@op(
    **LIBRARY,
    dims={"B": Dim(low=1, high=3), "Q": tokens(200, grows=False), "T": tokens(200, grows=False), **HEADS},
    inputs={
        "q": tensor("B", "Q", "G*R", "D"),
        "k": tensor("B", "T", "G", "D"),
        "v": tensor("B", "T", "G", "D"),
    },
    options={"is_causal": (False, True)},
    dtypes=HALVES,
    contiguous="rows",
    apart=("B",),
    refuses=NO_CONFIG,
)
def attention_of_batch(q, k, v, is_causal):
    from aiter.ops.triton.attention.mha import flash_attn_func

    return flash_attn_func(q, k, v, causal=is_causal)


@attention_of_batch.reference
def attention_of_batch_reference(q, k, v, is_causal, Q, T):
    return attention(q, k, v, allowed=seen(Q, T, is_causal=is_causal))[0]


@op(
    **LIBRARY,
    dims={"T": tokens(300, grows=False), "N": groups(1, 2, 3, 5), **HEADS},
    inputs={
        "q": tensor("T", "G*R", "D"),
        "k": tensor("T", "G", "D"),
        "v": tensor("T", "G", "D"),
        "bounds": segments("T", "N"),
    },
    options={"is_causal": (False, True)},
    dtypes=HALVES,
    contiguous="rows",
    apart=("G",),
    refuses=NO_CONFIG,
)
def attention_of_packed(q, k, v, bounds, is_causal):
    from aiter.ops.triton.attention.mha import flash_attn_varlen_func

    bounds = bounds.int()
    most = int(bounds.diff().max())
    return flash_attn_varlen_func(q, k, v, bounds, bounds, most, most, causal=is_causal)


@attention_of_packed.reference
def attention_of_packed_reference(q, k, v, bounds, is_causal):
    return by_sequence(q, k, v, bounds, is_causal=is_causal)


def by_sequence(q, k, v, bounds, *, is_causal):
    import torch

    parts = [
        attention(q[at:to], k[at:to], v[at:to], allowed=seen(to - at, to - at, is_causal=is_causal))[0]
        for at, to in pairwise(bounds.tolist())
    ]
    return torch.cat(parts)


@op(
    **LIBRARY,
    dims={"T": tokens(300, grows=False), "N": groups(1, 2, 3, 5), **HEADS, "D": Dim(low=16, high=128)},
    inputs={
        "q": tensor("T", "G*R", "D", grad=False),
        "k": tensor("T", "G", "D", grad=False),
        "v": tensor("T", "G", "D", grad=False),
        "bounds": segments("T", "N"),
    },
    options={"is_causal": (True, False)},
    contiguous="rows",
    apart=("G",),
)
def attention_of_prompts(q, k, v, bounds, is_causal):
    from aiter.ops.triton.attention.prefill_attention import context_attention_fwd

    output, lengths = q.new_empty(q.shape), bounds.diff()
    context_attention_fwd(q, k, v, output, bounds[:-1].contiguous(), lengths, int(lengths.max()), is_causal)
    return output


@attention_of_prompts.reference
def attention_of_prompts_reference(q, k, v, bounds, is_causal):
    return by_sequence(q, k, v, bounds, is_causal=is_causal)


def owned_by_heads(table, lengths, P, S):
    return owned(table, lengths, P, S)[:, None, :, None]


def owned_cells(table, lengths, P, S):
    return owned(table, lengths, P, S)[..., None, None]


PAGES = {
    "B": Dim(low=1, high=6),
    "G": groups(1, 2, 4),
    "R": groups(1, 2, 5, 8),
    "D": groups(64, 128),
    "P": Dim(low=16, high=40),
    "S": groups(16, 32, 64),
    "W": Dim(low=1, high=6),
}
TABLE = {
    "table": integers("B", "W", high="P", dtype="int32"),
    "lengths": integers("B", low=1, high="W*S+1", dtype="int32"),
}


@op(
    **LIBRARY,
    dims=PAGES,
    inputs={
        "q": tensor("B", "G*R", "D", grad=False),
        **TABLE,
        "keys": tensor("P", "G", "S", "D", grad=False, defined=owned_by_heads),
        "values": tensor("P", "G", "S", "D", grad=False, defined=owned_by_heads),
        "slopes": tensor("G*R", grad=False, optional=True, dtype=DType.FP32),
    },
    options={"room": (0, 3000)},
    dtypes=HALVES,
    contiguous=True,
    apart=("B",),
)
def decoding_on_pages(q, table, lengths, keys, values, slopes, room, D):
    """With room for longer sequences, a sequence is computed in parts."""
    import torch
    import triton.language as tl
    from aiter.ops.triton.attention.pa_decode import paged_attention_decode

    output, one = torch.empty_like(q), torch.ones((), dtype=torch.float32, device=q.device)
    kind = tl.bfloat16 if q.dtype is torch.bfloat16 else tl.float16
    most = int(lengths.max()) + room
    given = (output, q, keys, values, lengths, table, D**-0.5, most, kind, one, one)
    paged_attention_decode(*given, alibi_slopes=slopes)
    return output


@decoding_on_pages.reference
def decoding_on_pages_reference(q, table, lengths, keys, values, slopes, W, S):
    import torch

    k, v = (paged[table.long()].transpose(2, 3).flatten(1, 2) for paged in (keys, values))
    allowed = ragged(lengths, W * S)[:, None, None]
    if slopes is None:
        return attention(q[:, None], k, v, allowed=allowed)[0][:, 0]
    shared = q.shape[1] // k.shape[2]
    score = torch.einsum("bhd,bthd->bht", q, k.repeat_interleave(shared, 2)) * q.shape[-1] ** -0.5
    score = score + slopes.to(score.dtype)[:, None] * (torch.arange(W * S) - (lengths[:, None] - 1))[:, None]
    weight = score.masked_fill(~allowed[:, 0], float("-inf")).softmax(-1)
    return torch.einsum("bht,bthd->bhd", weight, v.repeat_interleave(shared, 2))


@op(
    **LIBRARY,
    dims={**PAGES, "Q": groups(1, 3, 17), "S": groups(16, 32, 64)},
    inputs={
        "q": tensor("B*Q", "G*R", "D", grad=False),
        **TABLE,
        "keys": tensor("P", "S", "G", "D", grad=False, defined=owned_cells),
        "values": tensor("P", "S", "G", "D", grad=False, defined=owned_cells),
        "sinks": tensor("G*R", grad=False, optional=True),
    },
    options={"window": (0, 40)},
    dtypes=HALVES,
    contiguous=True,
    where=lambda at: at["W"] * at["S"] >= at["Q"],
)
def unified_attention(q, table, lengths, keys, values, sinks, window, Q, D):
    """Each request has the same number of new tokens, whose keys are on the pages."""
    import torch
    from aiter.ops.triton.attention.unified_attention import unified_attention as apply

    lengths, output = lengths.clamp(min=Q), torch.empty_like(q)
    bounds = torch.arange(0, len(q) + 1, Q, dtype=torch.int32, device=q.device)
    size = (window - 1, 0) if window else (-1, -1)
    given = (q, keys, values, output, bounds, Q, lengths, int(lengths.max()), D**-0.5, True, size, table, 0)
    apply(*given, None, None, None, sinks=sinks)
    return output


@unified_attention.reference
def unified_attention_reference(q, table, lengths, keys, values, sinks, window, Q, W, S):
    import torch

    lengths = lengths.clamp(min=Q).long()
    k, v = (paged[table.long()].flatten(1, 2) for paged in (keys, values))
    shared = q.shape[1] // k.shape[2]
    k, v = k.repeat_interleave(shared, 2), v.repeat_interleave(shared, 2)
    score = torch.einsum("bqhd,bthd->bhqt", q.unflatten(0, (-1, Q)), k) * q.shape[-1] ** -0.5
    back = torch.arange(W * S) - (lengths[:, None, None] - Q + torch.arange(Q)[:, None])
    allowed = (back <= 0) & (back > -window) if window else back <= 0
    score = score.masked_fill(~allowed[:, None], float("-inf"))
    if sinks is not None:
        score = torch.cat((score, sinks[:, None, None].expand(*score.shape[:3], 1)), -1)
    weight = score.softmax(-1)[..., : W * S]
    return torch.einsum("bhqt,bthd->bqhd", weight, v).flatten(0, 1)


@op(
    **LIBRARY,
    dims={"T": tokens(200, grows=False), "N": groups(1, 2, 3), "P": Dim(low=1, high=100), **HEADS},
    inputs={
        "q": tensor("T", "G*R", "D", grad=False),
        "k": tensor("T", "G", "D", grad=False),
        "v": tensor("T", "G", "D", grad=False),
        "cached_k": tensor("P", "G", "D", grad=False),
        "cached_v": tensor("P", "G", "D", grad=False),
        "bounds": segments("T", "N"),
        "cached": segments("P", "N", may_be_empty=True),
        "order": integers("P", high="P", distinct=True),
    },
    options={"logit_cap": (0.0, 20.0)},
    dtypes=HALVES,
    contiguous=True,
    apart=("G",),
    where=lambda at: at["N"] <= at["T"],
    refuses=NO_CONFIG,
)
def attention_behind_cache(q, k, v, cached_k, cached_v, bounds, cached, order, logit_cap):
    """The cached tokens of a sequence lie anywhere."""
    from aiter.ops.triton.attention.extend_attention import extend_attention_fwd

    output, most = q.new_empty(q.shape), int(bounds.diff().max())
    given = (q, k, v, output, cached_k, cached_v, bounds.int(), cached.int(), order.int(), None, True, None, most)
    extend_attention_fwd(*given, logit_cap=logit_cap)
    return output


@attention_behind_cache.reference
def attention_behind_cache_reference(q, k, v, cached_k, cached_v, bounds, cached, order, logit_cap):
    import torch

    parts = []
    for (at, to), (first, last) in zip(pairwise(bounds.tolist()), pairwise(cached.tolist()), strict=True):
        rows = order[first:last]
        keys, values = torch.cat((cached_k[rows], k[at:to])), torch.cat((cached_v[rows], v[at:to]))
        allowed = seen(to - at, len(keys), is_causal=True)
        parts.append(attention(q[at:to], keys, values, allowed=allowed, logit_cap=logit_cap)[0])
    return torch.cat(parts)


@op(
    **LIBRARY,
    dims={**PAGES, "M": groups(4, 8), "L": groups(64, 32)},
    inputs={
        "q": tensor("B", "G*R", "D", grad=False),
        **TABLE,
        "keys": tensor("P", "S", "G", "D", grad=False, defined=owned_cells),
        "values": tensor("P", "S", "G", "L", grad=False, defined=owned_cells),
    },
    options={"logit_cap": (0.0, 20.0)},
    dtypes=HALVES,
    contiguous=True,
    apart=("B",),
)
def decoding_in_parts(q, table, lengths, keys, values, logit_cap, M, L, S, D):
    from aiter.ops.triton.attention.mla_decode import decode_attention_fwd

    output = q.new_empty((*q.shape[:2], L))
    lse, parts = (q.new_empty(shape, dtype=output.float().dtype) for shape in (q.shape[:2], (*q.shape[:2], M, L + 1)))
    decode_attention_fwd(q, keys, values, output, lse, table, lengths, parts, M, D**-0.5, S, logit_cap)
    return output, lse


@decoding_in_parts.reference
def decoding_in_parts_reference(q, table, lengths, keys, values, logit_cap, W, S):
    k, v = (paged[table.long()].flatten(1, 2) for paged in (keys, values))
    y, lse = attention(q[:, None], k, v, allowed=ragged(lengths, W * S)[:, None, None], logit_cap=logit_cap)
    return y[:, 0], lse[:, 0]
