"""Log-linear attention of flash-linear-attention: queries weigh the past by levels of sizes 1, 1, 2, 4 and so on.

The level of position s at query t is the number of bits of `t xor s`, so 0 for s = t.  Levels are the blocks of a
Fenwick tree.  Each query has a scale per level.  Queries and keys have G heads, values G * M.
"""

from harness.suite import Dim, Draw, beside, groups, op, segments, tensor, tokens

LIBRARY = (("fla-core", "flash-linear-attention"),)
SIZES = {
    "B": Dim(low=1, high=3),
    "T": tokens(300, grows=False),
    "G": Dim(low=1, high=2),
    "M": Dim(low=1, high=2),
    "L": Dim(low=1, high=11),
    "K": groups(64, 128),
    "V": groups(64, 16, 32, 128),
}
"""The library requires that 64 divides K, and that V is a power of two."""


def sequences(batch="B", *, grad=True):
    """Queries, keys, values, gates and the scales of the levels."""
    return {
        "q": tensor(batch, "T", "G", "K", grad=grad),
        "k": tensor(batch, "T", "G", "K", grad=grad),
        "v": tensor(batch, "T", "G*M", "V", grad=grad),
        "g": tensor(batch, "T", "G*M", draw=Draw.LOG_UNIT, grad=grad),
        "level_scales": tensor(batch, "T", "G*M", "L", grad=grad),
    }


def enough_levels(at):
    """There is a scale for every level of T tokens, and a token for every sequence."""
    return 2 ** (at["L"] - 1) >= at["T"] and at.get("N", 1) <= at["T"]


def definition(q, k, v, g, level_scales, scale=1.0):
    import torch

    recurrences = beside(__file__, "definitions/_recurrences.py")
    heads, length = v.shape[2], v.shape[1]
    q, k = recurrences.shared(q, heads), recurrences.shared(k, heads)
    g, sums = recurrences.factored(g)
    scores = recurrences.decayed_scores(q * sums.exp().unsqueeze(-1), k * (-sums).exp().unsqueeze(-1), g)
    places = torch.arange(length)
    levels = torch.frexp((places[:, None] ^ places).double())[1].long()
    weights = level_scales.transpose(1, 2).gather(3, levels.clamp(max=level_scales.shape[-1] - 1).expand(*scores.shape))
    return ((scores * weights) @ v.transpose(1, 2)).transpose(1, 2) * recurrences.scale_of(q, scale)


@op(requires=LIBRARY, dims={**SIZES, "G": Dim(low=1, high=1)}, inputs=sequences(), where=enough_levels)
def chunk_log_linear_attn(q, k, v, g, level_scales):
    from fla.ops.log_linear_attn import chunk_log_linear_attn as attend

    return attend(q, k, v, g, level_scales)[0]


@chunk_log_linear_attn.reference
def chunk_log_linear_attn_reference(q, k, v, g, level_scales):
    return definition(q, k, v, g, level_scales)


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs=sequences(),
    options={"scale": (None, 0.7)},
    where=enough_levels,
)
def chunk_log_linear_attn_scaled(q, k, v, g, level_scales, scale):
    from fla.ops.log_linear_attn import chunk_log_linear_attn as attend

    return attend(q, k, v, g, level_scales, scale=scale)[0]


@chunk_log_linear_attn_scaled.reference
def chunk_log_linear_attn_scaled_reference(q, k, v, g, level_scales, scale):
    return definition(q, k, v, g, level_scales, scale)


@op(
    requires=LIBRARY,
    dims={**{name: dim for name, dim in SIZES.items() if name != "B"}, "N": Dim(low=1, high=6)},
    inputs={**sequences(1), "cu_seqlens": segments("T", "N")},
    where=enough_levels,
)
def chunk_log_linear_attn_varlen(q, k, v, g, level_scales, cu_seqlens):
    from fla.ops.log_linear_attn import chunk_log_linear_attn as attend

    return attend(q, k, v, g, level_scales, cu_seqlens=cu_seqlens)[0]


@chunk_log_linear_attn_varlen.reference
def chunk_log_linear_attn_varlen_reference(q, k, v, g, level_scales, cu_seqlens):
    from itertools import pairwise

    import torch

    return torch.cat(
        [
            definition(*(x[:, begin:end] for x in (q, k, v, g, level_scales)))
            for begin, end in pairwise(cu_seqlens.tolist())
        ],
        1,
    )


@op(
    requires=LIBRARY,
    dims={**SIZES, "S": Dim(low=1, high=200)},
    inputs=sequences(grad=False),
    where=lambda at: at["S"] < at["T"] and enough_levels(at),
)
def chunk_log_linear_attn_continued(q, k, v, g, level_scales, S):
    import torch
    from fla.ops.log_linear_attn import chunk_log_linear_attn as attend

    begun, state = attend(*(x[:, :S] for x in (q, k, v, g, level_scales)), output_final_state=True)
    return torch.cat([begun, attend(*(x[:, S:] for x in (q, k, v, g, level_scales)), initial_state=state)[0]], 1)


@chunk_log_linear_attn_continued.reference
def chunk_log_linear_attn_continued_reference(q, k, v, g, level_scales):
    return definition(q, k, v, g, level_scales)
