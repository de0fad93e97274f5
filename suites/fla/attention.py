"""Softmax attention of flash-linear-attention: whole sequences, packed ones, and one step of decoding.

Queries have G times as many heads as keys.  Gates g <= 0 add `g_{s+1} + … + g_t` to the score of key s at query t.
A sink is one more score per head, which takes its share of the softmax and has no value.
"""

from itertools import pairwise

from harness.suite import Dim, Draw, beside, op, segments, tensor, tokens, width

LIBRARY = (("fla-core", "flash-linear-attention"),)
SIZES = {
    "B": Dim(low=1, high=3, grows=True, largest=5_000),  # times the number of heads, this is an axis of a grid
    "T": tokens(300, grows=False),
    "H": Dim(low=1, high=3),
    "G": Dim(low=1, high=4),
    "K": width(256),
    "V": width(256),
}
PACKED_SIZES = {
    "T": tokens(400, grows=False),
    "N": Dim(low=1, high=12),
    "H": Dim(low=1, high=3),
    "G": Dim(low=1, high=4),
    "K": width(128),
    "V": width(128),
}
DECODED_SIZES = {**PACKED_SIZES, "K": width(256), "V": width(300)}
SETTINGS = {"scale": (None, 0.7), "window_size": (None, 1, 17, 100)}


def sequences(batch, queries="T", *, grad=True):
    """Queries, keys, values, gates and sinks."""
    return {
        "q": tensor(batch, queries, "H*G", "K", grad=grad),
        "k": tensor(batch, "T", "H", "K", grad=grad),
        "v": tensor(batch, "T", "H", "V", grad=grad),
        "g": tensor(batch, "T", "H*G", draw=Draw.LOG_UNIT, optional=True, grad=grad),
        "sink_bias": tensor("H*G", optional=True, grad=grad),
    }


def enough_tokens(at):
    """Every one of the N sequences has a token, so that each of the N queries has a sequence."""
    return at["N"] <= at["T"]


def attended(q, k, v, g, sink_bias, scale, window_size):
    """The definition.  The queries belong to the last positions of the keys."""
    import torch

    recurrences = beside(__file__, "definitions/_recurrences.py")
    heads, (queries, keys) = q.shape[2], (q.shape[1], k.shape[1])
    k, v = recurrences.shared(k, heads), recurrences.shared(v, heads)
    scores = recurrences.scaled(q, scale).transpose(1, 2) @ k.permute(0, 2, 3, 1)
    if g is not None:
        scores = scores + recurrences.between(g)[:, :, keys - queries :]
    seen = recurrences.causal(keys)
    if window_size is not None:
        seen = seen & ~recurrences.causal(keys, -window_size)
    scores = torch.where(seen[keys - queries :], scores, float("-inf"))
    # A softmax whose gradient rounds like the kernels': weights come from the rounded log-sum-exp, and the gradient of
    # each weight is reduced by their mean.  `nothing` is zero, but its gradient is not.
    sink = None if sink_bias is None else sink_bias[:, None, None]
    lse = scores.logsumexp(-1, keepdim=True)
    lse = (lse if sink is None else torch.logaddexp(lse, sink)).detach()
    weights = (scores - lse).exp()
    nothing = 1 - weights.sum(-1, keepdim=True)
    if sink is not None:
        nothing = nothing - (sink - lse).exp()
    mean = weights @ v.transpose(1, 2)
    return (mean + nothing * mean.detach()).transpose(1, 2)


def attended_packed(q, k, v, g, sink_bias, cu_seqlens, scale, window_size):
    import torch

    return torch.cat(
        [
            attended(*(None if x is None else x[:, begin:end] for x in (q, k, v, g)), sink_bias, scale, window_size)
            for begin, end in pairwise(cu_seqlens.tolist())
        ],
        1,
    )


@op(requires=LIBRARY, dims=SIZES, inputs=sequences("B"), options=SETTINGS, apart=("B", "H"), independent=("B",))
def parallel_attn(q, k, v, g, sink_bias, scale, window_size):
    from fla.ops.attn.parallel import parallel_attn as attend

    return attend(q, k, v, g, scale, window_size, sink_bias=sink_bias)


@parallel_attn.reference
def parallel_attn_reference(q, k, v, g, sink_bias, scale, window_size):
    return attended(q, k, v, g, sink_bias, scale, window_size)


@op(
    requires=LIBRARY,
    dims=PACKED_SIZES,
    inputs={**sequences(1), "cu_seqlens": segments("T", "N")},
    options=SETTINGS,
    apart=("H",),
    sequences="cu_seqlens",
)
def parallel_attn_varlen(q, k, v, g, sink_bias, cu_seqlens, scale, window_size):
    from fla.ops.attn.parallel import parallel_attn as attend

    return attend(q, k, v, g, scale, window_size, cu_seqlens, sink_bias=sink_bias)


@parallel_attn_varlen.reference
def parallel_attn_varlen_reference(q, k, v, g, sink_bias, cu_seqlens, scale, window_size):
    return attended_packed(q, k, v, g, sink_bias, cu_seqlens, scale, window_size)


def decoded(q, k, v, g, sink_bias, cu_seqlens, scale, do_gate_scale, window_size):
    """One query at the end of each sequence; zeros if the sequence or the window is empty."""
    import torch

    if g is not None and do_gate_scale:
        g = g * (q.shape[-1] ** -0.5 if scale is None else scale)
    nothing = q.new_zeros(1, 1, q.shape[2], v.shape[3])
    return torch.cat(
        [
            attended(
                q[:, n : n + 1],
                *(None if x is None else x[:, begin:end] for x in (k, v, g)),
                sink_bias,
                scale,
                window_size,
            )
            if begin < end and window_size != 0
            else nothing
            for n, (begin, end) in enumerate(pairwise(cu_seqlens.tolist()))
        ],
        1,
    )


@op(
    requires=LIBRARY,
    dims=DECODED_SIZES,
    inputs={**sequences(1, "N", grad=False), "cu_seqlens": segments("T", "N", may_be_empty=True)},
    options={"scale": (None, 0.7), "do_gate_scale": (False, True)},
    apart=("N", "H"),
    where=enough_tokens,
    sequences="cu_seqlens",
)
def attn_decoding_one_step(q, k, v, g, sink_bias, cu_seqlens, scale, do_gate_scale):
    from fla.ops.attn.decoding import attn_decoding_one_step as decode

    return decode(q, k, v, g, scale, cu_seqlens, do_gate_scale, sink_bias=sink_bias)


@attn_decoding_one_step.reference
def attn_decoding_one_step_reference(q, k, v, g, sink_bias, cu_seqlens, scale, do_gate_scale):
    return decoded(q, k, v, g, sink_bias, cu_seqlens, scale, do_gate_scale, None)


@op(
    requires=LIBRARY,
    dims=DECODED_SIZES,
    inputs={**sequences(1, "N", grad=False), "cu_seqlens": segments("T", "N", may_be_empty=True)},
    options={"window_size": (1, 2, 17, 64, 100, 0)},
    apart=("N", "H"),
    where=enough_tokens,
    sequences="cu_seqlens",
)
def attn_decoding_one_step_in_a_window(q, k, v, g, sink_bias, cu_seqlens, window_size):
    from fla.ops.attn.decoding import attn_decoding_one_step as decode

    return decode(q, k, v, g, cu_seqlens=cu_seqlens, window_size=window_size, sink_bias=sink_bias)


@attn_decoding_one_step_in_a_window.reference
def attn_decoding_one_step_in_a_window_reference(q, k, v, g, sink_bias, cu_seqlens, window_size):
    return decoded(q, k, v, g, sink_bias, cu_seqlens, None, False, window_size)  # noqa: FBT003 - no gate scale
