"""xFormers' rotary embedding of packed queries and keys, which also puts keys and values into a padded cache."""

from harness.suite import Dim, groups, integers, op, segments, tensor

THETA = 10_000.0
OLD_LENGTH, SCALE, LOW, HIGH = 8192.0, 16.0, 1.0, 32.0
"""The settings of dynamic scaling that are the library's own defaults."""
ROOM = 8
"""The slots of the cache for each sequence besides those of its new tokens."""


@op(
    requires=("sources:xformers",),
    stubs={"xformers": "xformers_stubs.py"},
    dims={
        "T": Dim(low=1, high=200),
        "N": groups(1, 2, 3),
        "H": groups(1, 2, 4),
        "G": groups(1, 2),
        "R": Dim(low=1, high=96),
    },
    inputs={
        "q": tensor("T", "H", "2*R", grad=False),
        "k": tensor("T", "G", "2*R", grad=False),
        "v": tensor("T", "G", "2*R", grad=False),
        "cached_k": tensor(f"T+{ROOM}*N", "G", "2*R", grad=False),
        "cached_v": tensor(f"T+{ROOM}*N", "G", "2*R", grad=False),
        "starts": segments("T", "N", dtype="int32"),
        "past": integers("N", high=ROOM + 1, dtype="int32"),
        "positions": integers("T", high=1 << 17, dtype="int32", optional=True),
    },
    options={
        "internal_dtype": ("f32", "f64"),
        "adjacents": (True, False),
        "linear_scale": (1.0, 4.0),
        "use_dynamic_scaling": (False, True),
    },
)
def rope_padded(
    q, k, v, cached_k, cached_v, starts, past, positions, internal_dtype, adjacents, linear_scale, use_dynamic_scaling
):
    from types import SimpleNamespace

    from xformers.ops.rope_padded import rope_padded as apply

    cached_k, cached_v = cached_k.clone()[None], cached_v.clone()[None]
    past, lengths = past[: len(starts) - 1], starts.diff()
    bounds = bounds_of(starts)
    queries = SimpleNamespace(seqstart=starts, seqstart_py=starts.tolist(), max_seqlen=int(lengths.max()))
    keys = SimpleNamespace(
        seqstart=bounds,
        seqstart_py=[*bounds.tolist()[:-1], cached_k.shape[1]],
        seqlen=(lengths + past).to(starts.dtype),
    )
    out = apply(
        *(q[None], k[None], v[None], cached_k, cached_v),
        SimpleNamespace(q_seqinfo=queries, k_seqinfo=keys),
        theta=THETA,
        seqpos=positions,
        adjacents=adjacents,
        internal_dtype=internal_dtype,
        linear_scale=linear_scale,
        use_dynamic_scaling=use_dynamic_scaling,
    )
    return out[0], cached_k[0], cached_v[0]


@rope_padded.reference
def rope_padded_reference(
    q, k, v, cached_k, cached_v, starts, past, positions, internal_dtype, adjacents, linear_scale, use_dynamic_scaling
):
    import torch

    past, lengths = past[: len(starts) - 1], starts.diff()
    sequence = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    place = torch.arange(len(q)) - starts[sequence] + past[sequence]
    slots = bounds_of(starts)[sequence] + place
    wide = torch.float64 if internal_dtype == "f64" else torch.promote_types(q.dtype, torch.float32)
    half = q.shape[-1] // 2
    speeds = THETA ** (-torch.arange(half).to(wide) / half)
    if use_dynamic_scaling:
        speeds = scaled_dynamically(speeds)
    position = place if positions is None else positions
    angles = (position[:, None].to(wide) * speeds / linear_scale)[:, None]
    turned_q, turned_k = (turned(x, angles, adjacents) for x in (q, k))
    slots = slots.long()
    return turned_q, cached_k.index_copy(0, slots, turned_k), cached_v.index_copy(0, slots, v)


def scaled_dynamically(speeds):
    """Slow down low frequencies by the scale, those in the middle by less."""
    import math

    import torch

    lengths = 2 * math.pi / speeds
    smooth = (OLD_LENGTH / lengths - LOW) / (HIGH - LOW)
    middle = (1 - smooth) * speeds / SCALE + smooth * speeds
    return torch.where(
        lengths > OLD_LENGTH / LOW, speeds / SCALE, torch.where(lengths > OLD_LENGTH / HIGH, middle, speeds)
    )


def turned(x, angles, adjacents):
    """Turn each pair of numbers of a head by its angle."""
    import torch

    wide = x.to(angles.dtype)
    first, second = (wide[..., ::2], wide[..., 1::2]) if adjacents else wide.chunk(2, -1)
    pair = first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()
    made = torch.stack(pair, -1).flatten(-2) if adjacents else torch.cat(pair, -1)
    return made.to(x.dtype)


def bounds_of(starts):
    """Return where each sequence's part of the cache begins, and where the last one ends."""
    import torch

    return starts + ROOM * torch.arange(len(starts), dtype=starts.dtype)
