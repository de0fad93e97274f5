"""Attention of SGLang in Triton: of new sequences, of one token on pages of keys, and of merged parts."""

from inspect import signature
from itertools import pairwise

from harness.suite import Dim, DType, attention, beside, groups, integers, op, segments, tensor, tokens

LIBRARY = {"requires": ("sources:sglang",), "stubs": {"sglang": "sglang_stubs.py"}}
places = beside(__file__, "places.py")


@op(
    **LIBRARY,
    dims={"T": tokens(512, grows=False), "H": groups(1, 2, 3, 8), "D": Dim(low=1, high=128)},
    inputs={
        "prefix": tensor("T", "H", "D", grad=False),
        "prefix_lse": tensor("T", "H", grad=False, dtype=DType.FP32),
        "suffix": tensor("T", "H", "D", grad=False),
        "suffix_lse": tensor("T", "H", grad=False, dtype=DType.FP32),
    },
    contiguous=True,
    apart=("T", "H"),
    independent=("T",),
)
def merged_attention(prefix, prefix_lse, suffix, suffix_lse):
    merge_state_triton = of_release("merge_state_triton", "merge_state")

    return merge_state_triton(prefix, prefix_lse, suffix, suffix_lse)


@merged_attention.reference
def merged_attention_reference(prefix, prefix_lse, suffix, suffix_lse):
    top = prefix_lse.maximum(suffix_lse)
    first, second = (prefix_lse - top).exp(), (suffix_lse - top).exp()
    both = first + second
    return prefix * (first / both)[..., None] + suffix * (second / both)[..., None], top + both.log()


@op(
    **LIBRARY,
    dims={
        "T": tokens(400, grows=False),
        "N": groups(1, 2, 3, 5),
        "G": groups(1, 2, 3),
        "R": groups(1, 2, 4),
        "D": Dim(low=1, high=128),
    },
    inputs={
        "q": tensor("T", "G*R", "D", grad=False),
        "k": tensor("T", "G", "D", grad=False),
        "v": tensor("T", "G", "D", grad=False),
        "bounds": segments("T", "N"),
    },
    options={"is_causal": (True, False)},
    contiguous=True,  # the kernel steps from channel to channel by one
    apart=("G",),
    sequences="bounds",
)
def attention_of_sequences(q, k, v, bounds, is_causal):
    context_attention_fwd = of_release("context_attention_fwd", "prefill_attention")

    output, lengths = q.new_empty(q.shape), bounds.diff()
    context_attention_fwd(q, k, v, output, bounds[:-1], lengths, int(lengths.max()), is_causal)
    return output


@attention_of_sequences.reference
def attention_of_sequences_reference(q, k, v, bounds, is_causal):
    return joined([attended(q[at:to], k[at:to], v[at:to], is_causal=is_causal) for at, to in pairwise(bounds.tolist())])


@op(
    **LIBRARY,
    dims={
        "T": tokens(400, grows=False),
        "B": groups(1, 2, 3, 5),
        "G": groups(1, 2, 3),
        "R": groups(1, 2, 4),
        "D": Dim(low=16, high=128),
    },
    inputs={
        "q": tensor("B", "G*R", "D", grad=False),
        "k": tensor("T", "G", "D", grad=False),
        "v": tensor("T", "G", "D", grad=False),
        "bounds": segments("T", "B"),
        "order": integers("T", high="T", distinct=True),
        "splits": integers("B", low=1, high=9, dtype="int32"),
    },
    options={"logit_cap": (0.0, 20.0)},
    contiguous=True,
    apart=("G",),
    where=lambda at: at["B"] <= at["T"],
)
def attention_of_one_token(q, k, v, bounds, order, splits, logit_cap):
    """Each sequence has one query.  Its keys lie anywhere in the buffers, and are read in several parts."""
    import torch

    decode_attention_fwd = of_release("decode_attention_fwd", "decode_attention")

    output, heads = q.new_empty(q.shape), (len(q), q.shape[1])
    parts = q.new_empty((*heads, 8, v.shape[-1]), dtype=torch.float32)
    lse = q.new_empty((*heads, 8), dtype=torch.float32)
    scale = q.shape[-1] ** -0.5
    decode_attention_fwd(
        q,
        k,
        v,
        output,
        bounds,
        order,
        parts,
        lse,
        splits,
        8,
        scale,
        *scales_of(decode_attention_fwd),
        logit_cap=logit_cap,
    )
    return output


@attention_of_one_token.reference
def attention_of_one_token_reference(q, k, v, bounds, order, logit_cap):
    rows = [order[at:to] for at, to in pairwise(bounds.tolist())]
    return joined([attended(q[n : n + 1], k[at], v[at], logit_cap=logit_cap) for n, at in enumerate(rows)])


def attended(q, k, v, *, is_causal=False, logit_cap=0.0):
    import torch

    allowed = torch.ones(len(q), len(k), dtype=torch.bool).tril() if is_causal else None
    return attention(q, k, v, allowed=allowed, logit_cap=logit_cap)[0]


def joined(parts):
    import torch

    return torch.cat(parts)


def used_places(lengths, order, T):
    """Keys and values of no request must not be read."""
    import torch

    _, pages = pages_of_requests(lengths, order)
    return torch.isin(torch.arange(T), pages)[:, None, None]


@op(
    **LIBRARY,
    dims={
        "T": tokens(300, grows=False),
        "B": Dim(low=1, high=5, grows=True, largest=1 << 16),
        "G": Dim(low=1, high=3),
        "R": Dim(low=1, high=16),
        "D": Dim(low=16, high=128),
        "M": groups(16),
    },
    inputs={
        "q": tensor("B", "G*R", "D", grad=False),
        "k": tensor("T", "G", "D", grad=False, defined=used_places),
        "v": tensor("T", "G", "D", grad=False, defined=used_places),
        "lengths": integers("B", high="T+1", dtype="int32"),
        "order": integers("T", high="T"),
        "splits": integers("B", low=1, high="M+1", dtype="int32"),
        "parts": tensor("B", "G*R", "M", "D", grad=False, dtype=DType.FP32),
    },
    options={"logit_cap": (0.0, 20.0)},
    contiguous=True,
    apart=("G",),
    defined=lambda lengths: (lengths > 0)[:, None, None],
)
def attention_of_one_token_in_parts(q, k, v, lengths, order, splits, parts, logit_cap):
    """The caller provides the buffer for the parts of the results.  Requests without a key pad the batch."""
    decode_attention_fwd = of_release("decode_attention_fwd", "decode_attention")

    bounds, pages = pages_of_requests(lengths, order)
    output, lse = q.new_empty(q.shape), parts.new_empty(parts.shape[:3])
    most, scale = parts.shape[2], q.shape[-1] ** -0.5
    decode_attention_fwd(
        q,
        k,
        v,
        output,
        bounds,
        pages,
        parts.clone(),
        lse,
        splits,
        most,
        scale,
        *scales_of(decode_attention_fwd),
        logit_cap=logit_cap,
    )
    return output


@attention_of_one_token_in_parts.reference
def attention_of_one_token_in_parts_reference(q, k, v, lengths, order, logit_cap):
    bounds, pages = pages_of_requests(lengths, order)
    rows = [pages[at:to] for at, to in pairwise(bounds.tolist())]
    return joined([attended(q[n : n + 1], k[at], v[at], logit_cap=logit_cap) for n, at in enumerate(rows)])


def of_release(name, module):
    return places.function(name, f"{places.OPS}attention.{module}", f"sglang.srt.layers.attention.triton_ops.{module}")


def scales_of(launch):
    """Return the factors of keys and values, if this release has them."""
    return (1.0, 1.0) if "k_scale" in signature(launch).parameters else ()


def pages_of_requests(lengths, order):
    """Return where the pages of each request begin, and the pages: requests share them."""
    import torch

    bounds = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int()
    return bounds, order[torch.arange(int(bounds[-1]), device=order.device) % len(order)]
