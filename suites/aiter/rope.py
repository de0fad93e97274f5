"""Rotary embeddings of aiter, in the layouts of its callers, and keys that join a cache."""

from harness.suite import Dim, DType, groups, integers, op, segment_ids, segments, tensor, tokens

LIBRARY = {"requires": ("amd-aiter",), "stubs": {"aiter": "aiter_stubs.py"}}
STYLES = {"style": (0, 1), "repeats": (True, False)}
"""Pairs are halves (0) or neighbours (1); angles are given once for both halves, or for each number."""
PARTS = {"of_all": (True, False), "tail": (False, True)}
"""Either all numbers of a head are rotated, or one half, first or last."""


def places(D, *, of_all, repeats):
    """Return how many angles a token has."""
    return D // (1 if of_all else 2) // (2 if repeats else 1)


def rotated(x, cos, sin, style, *, tail=False):
    """Rotate the numbers of each head that have an angle."""
    import torch

    D, extent = x.shape[-1], cos.shape[-1]
    first, second = (x[..., :extent], x[..., extent:]) if not tail else (x[..., D - extent :], x[..., : D - extent])
    if style == 0:
        turned = torch.cat((-first[..., extent // 2 :], first[..., : extent // 2]), -1)
    else:
        turned = torch.stack((-first[..., 1::2], first[..., ::2]), -1).flatten(-2)
    first = first * cos + turned * sin
    return torch.cat((second, first) if tail else (first, second), -1)


def for_each(angles, style, repeats):
    """Return an angle for each number that is rotated."""
    import torch

    if not repeats:
        return angles
    return torch.cat((angles, angles), -1) if style == 0 else angles.repeat_interleave(2, -1)


HEADS = {"D": groups(32, 64, 128), "H": Dim(low=1, high=6)}


@op(
    **LIBRARY,
    dims={"S": tokens(200), "B": Dim(low=1, high=3), **HEADS},
    inputs={"x": tensor("S", "B", "H", "D", grad=False), "angles": tensor("S", 1, 1, "D", grad=False)},
    options={**STYLES, **PARTS},
    apart=("B", "H"),
)
def rotary(x, angles, style, repeats, of_all, tail, D):
    from aiter.ops.triton.rope.rope import rope_fwd

    return rope_fwd(x, angles[..., : places(D, of_all=of_all, repeats=repeats)], style, repeats, tail)


@rotary.reference
def rotary_reference(x, angles, style, repeats, of_all, tail, D):
    angles = for_each(angles[..., : places(D, of_all=of_all, repeats=repeats)], style, repeats)
    return rotated(x, angles.cos(), angles.sin(), style, tail=tail)


@op(
    **LIBRARY,
    dims={"S": tokens(200, grows=False), "B": Dim(low=1, high=3), **HEADS},
    inputs={"x": tensor("S", "B", "H", "D"), "angles": tensor("S", 1, 1, "D//2", grad=False)},
    options={"style": (0, 1)},
)
def rotary_with_gradient(x, angles, style):
    from aiter.ops.triton.rope.rope import RoPE

    return RoPE.apply(x, angles, style, True, False)  # noqa: FBT003 - takes no keywords


@rotary_with_gradient.reference
def rotary_with_gradient_reference(x, angles, style):
    angles = for_each(angles, style, repeats=True)
    return rotated(x, angles.cos(), angles.sin(), style)


@op(
    **LIBRARY,
    dims={"T": tokens(300, grows=False), "N": Dim(low=1, high=5), **HEADS},
    inputs={
        "x": tensor("T", "H", "D", grad=False),
        "bounds": segments("T", "N"),
        "angles": tensor("T", 1, 1, "D", grad=False),
    },
    options={**STYLES, **PARTS},
    contiguous=True,
    apart=("H",),
)
def rotary_of_sequences(x, bounds, angles, style, repeats, of_all, tail, D):
    from aiter.ops.triton.rope.rope import rope_thd_fwd

    return rope_thd_fwd(x, bounds, angles[..., : places(D, of_all=of_all, repeats=repeats)], style, repeats, tail)


@rotary_of_sequences.reference
def rotary_of_sequences_reference(x, bounds, angles, style, repeats, of_all, tail, T, D):
    import torch

    at = torch.arange(T) - bounds[segment_ids(bounds, T)]
    angles = for_each(angles[at, 0, :, : places(D, of_all=of_all, repeats=repeats)], style, repeats)
    return rotated(x, angles.cos(), angles.sin(), style, tail=tail)


@op(
    **LIBRARY,
    dims={"S": tokens(200), "B": Dim(low=1, high=3), "P": Dim(low=1, high=300), **HEADS},
    inputs={
        "x": tensor("S", "B", "H", "D", grad=False),
        "cos": tensor("P", 1, 1, "D", grad=False),
        "sin": tensor("P", 1, 1, "D", grad=False),
        "positions": integers("S", "B", high="P"),
    },
    options={**STYLES, **PARTS},
    contiguous=True,
    apart=("H",),
)
def rotary_at_positions(x, cos, sin, positions, style, repeats, of_all, tail, D):
    from aiter.ops.triton.rope.rope import rope_cached_positions_fwd

    cos, sin = (table[..., : places(D, of_all=of_all, repeats=repeats)] for table in (cos, sin))
    return rope_cached_positions_fwd(x, cos, sin, positions, style, repeats, tail)


@rotary_at_positions.reference
def rotary_at_positions_reference(x, cos, sin, positions, style, repeats, of_all, tail, D):
    extent = places(D, of_all=of_all, repeats=repeats)
    cos, sin = (for_each(table[positions][:, :, 0, :, :extent], style, repeats) for table in (cos, sin))
    return rotated(x, cos, sin, style, tail=tail)


@op(
    **LIBRARY,
    dims={
        "T": tokens(1200),
        "G": Dim(low=1, high=4),
        "R": Dim(low=1, high=5),
        "D": groups(32, 64, 128),
        "P": Dim(low=1, high=300),
    },
    inputs={
        "x": tensor("T", "G*R", "D", grad=False),
        "y": tensor("T", "G", "D", grad=False),
        "cos": tensor("P", "D", grad=False, contiguous=True),
        "sin": tensor("P", "D", grad=False, contiguous=True),
        "positions": integers("T", high="P"),
    },
    options={**STYLES, **PARTS},
    contiguous=True,
)
def rotary_of_two(x, y, cos, sin, positions, style, repeats, of_all, tail, D):
    """Queries and keys of packed sequences."""
    from aiter.ops.triton.rope.rope import rope_cached_thd_positions_2c_fwd

    cos, sin = (table[..., : places(D, of_all=of_all, repeats=repeats)] for table in (cos, sin))
    return rope_cached_thd_positions_2c_fwd(x, y, cos, sin, positions, style, repeats, tail)


@rotary_of_two.reference
def rotary_of_two_reference(x, y, cos, sin, positions, style, repeats, of_all, tail, D):
    extent = places(D, of_all=of_all, repeats=repeats)
    cos, sin = (for_each(table[positions][:, None, :extent], style, repeats) for table in (cos, sin))
    return rotated(x, cos, sin, style, tail=tail), rotated(y, cos, sin, style, tail=tail)


@op(
    **LIBRARY,
    dims={
        "T": tokens(300),
        "G": Dim(low=1, high=3),
        "R": Dim(low=1, high=4),
        "D": groups(32, 64, 128),
        "P": Dim(low=1, high=300),
    },
    inputs={
        "qkv": tensor("T", "G*R*D + 2*G*D", grad=False),
        "cos": tensor("P", "D", grad=False, contiguous=True),
        "sin": tensor("P", "D", grad=False, contiguous=True),
        "positions": integers("T", high="P"),
    },
    options={**STYLES, **PARTS},
    apart=("T",),
)
def split_and_rotated(qkv, cos, sin, positions, style, repeats, of_all, tail, G, R, D):
    from aiter.ops.triton.rope.fused_qkv_split_qk_rope import fused_qkv_split_qk_rope

    cos, sin = (table[..., : places(D, of_all=of_all, repeats=repeats)] for table in (cos, sin))
    return fused_qkv_split_qk_rope(
        qkv, cos, sin, positions, G * R, G, D, is_neox=style == 0, reuse_freqs_front_part=repeats, nope_first=tail
    )


@split_and_rotated.reference
def split_and_rotated_reference(qkv, cos, sin, positions, style, repeats, of_all, tail, G, R, D):
    extent = places(D, of_all=of_all, repeats=repeats)
    cos, sin = (for_each(table[positions][:, None, :extent], style, repeats) for table in (cos, sin))
    q, k, v = (part.unflatten(-1, (-1, D)) for part in qkv.split((G * R * D, G * D, G * D), -1))
    return rotated(q, cos, sin, style, tail=tail), rotated(k, cos, sin, style, tail=tail), v


@op(
    **LIBRARY,
    dims={
        "B": tokens(64),
        "G": Dim(low=1, high=2),
        "R": Dim(low=1, high=4),
        "N": groups(64, 128, 512),
        "D": groups(32, 64),
        "P": Dim(low=1, high=100),
    },
    inputs={
        "q": tensor("B", "G*R", "N", grad=False),
        "q_rotary": tensor("B", "G*R", "D", grad=False),
        "k": tensor("B", "G", "N", grad=False),
        "k_rotary": tensor("B", "G", "D", grad=False),
        "positions": integers("B", high="P"),
        "cos": tensor("P", "D", grad=False, contiguous=True),
        "sin": tensor("P", "D", grad=False, contiguous=True),
    },
    options=STYLES,
    apart=("B",),
)
def rotated_and_joined(q, q_rotary, k, k_rotary, positions, cos, sin, style, repeats, D):
    from aiter.ops.triton.fusions.fused_qk_concat import fused_qk_rope_cat

    cos, sin = (table[..., : places(D, of_all=True, repeats=repeats)] for table in (cos, sin))
    return fused_qk_rope_cat(q, q_rotary, k, k_rotary, positions, cos, sin, is_neox=style == 0)


@rotated_and_joined.reference
def rotated_and_joined_reference(q, q_rotary, k, k_rotary, positions, cos, sin, style, repeats, D):
    import torch

    extent = places(D, of_all=True, repeats=repeats)
    cos, sin = (for_each(table[positions][:, None, :extent], style, repeats) for table in (cos, sin))
    return (
        torch.cat((q, rotated(q_rotary, cos, sin, style)), -1),
        torch.cat((k, rotated(k_rotary, cos, sin, style)), -1),
    )


@op(
    **LIBRARY,
    dims={
        "T": tokens(64),
        "S": Dim(low=64, high=100),
        "H": Dim(low=1, high=2),
        "N": groups(128, 512),
        "D": groups(32, 64),
    },
    inputs={
        "k": tensor("T", "H", "N", grad=False),
        "k_rotary": tensor("T", "H", "D", grad=False),
        "cache": tensor("S", "H", "N+D", grad=False, contiguous="rows"),
        "slots": integers("T", high="S", distinct=True, ignore=-1),
    },
    dtypes=(DType.BF16,),
    where=lambda at: at["T"] <= at["S"],
)
def joined_into_cache(k, k_rotary, cache, slots):
    """Tokens without a slot are left out."""
    import torch
    from aiter.ops.triton.kv_cache import cat_and_cache_mla

    cat_and_cache_mla(k, k_rotary, cache, slots, torch.ones(1, dtype=torch.float32, device=k.device))
    return cache


@joined_into_cache.reference
def joined_into_cache_reference(k, k_rotary, cache, slots):
    import torch

    given = slots >= 0
    return cache.index_copy(0, slots[given], torch.cat((k, k_rotary), -1)[given])
