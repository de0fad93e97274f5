"""Rotary embeddings of Liger-Kernel, in the layout of Hugging Face, which pairs the two halves of a head."""

from harness.suite import Draw, beside, op, tensor, tokens, width

LIBRARY = ("liger-kernel",)
HEADS = {"B": width(8), "T": tokens(512), "HQ": width(40), "HK": width(12)}
apply = beside(__file__, "applying.py").apply


@op(
    requires=LIBRARY,
    dims={**HEADS, "R": width(128)},
    inputs={
        "q": tensor("B", "T", "HQ", "2*R"),
        "k": tensor("B", "T", "HK", "2*R"),
        "cos": tensor("B", "T", "R", grad=False, draw=Draw.UNIT),
        "sin": tensor("B", "T", "R", grad=False, draw=Draw.UNIT),
    },
    options={"positions_of_each": (False, True)},
)
def rope(q, k, cos, sin, positions_of_each):
    from liger_kernel.ops.rope import LigerRopeFunction

    cos, sin = (doubled(angle if positions_of_each else angle[:1]) for angle in (cos, sin))
    q, k = LigerRopeFunction.apply(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
    return q.transpose(1, 2), k.transpose(1, 2)


@rope.reference
def rope_reference(q, k, cos, sin, positions_of_each):
    cos, sin = (angle if positions_of_each else angle[:1] for angle in (cos, sin))
    return turned(q, cos, sin), turned(k, cos, sin)


@op(
    requires=LIBRARY,
    dims={**HEADS, "R": width(128), "E": width(128)},
    inputs={
        "q": tensor("B", "T", "HQ", "2*R+E"),
        "k": tensor("B", "T", "HK", "2*R+E"),
        "cos": tensor("B", "T", "R", grad=False, draw=Draw.UNIT),
        "sin": tensor("B", "T", "R", grad=False, draw=Draw.UNIT),
    },
    options={"doubles": (True, False)},
)
def partial_rope(q, k, cos, sin, R, doubles):
    from liger_kernel.ops.rope import LigerRopeFunction

    cos, sin = (doubled(angle) if doubles else angle for angle in (cos, sin))
    q, k = apply(LigerRopeFunction, q=q.transpose(1, 2), k=k.transpose(1, 2), cos=cos, sin=sin, rotary_dim=2 * R)
    return q.transpose(1, 2), k.transpose(1, 2)


@partial_rope.reference
def partial_rope_reference(q, k, cos, sin):
    return turned(q, cos, sin), turned(k, cos, sin)


@op(
    requires=LIBRARY,
    dims={**HEADS, "R": width(64), "S": width(32), "U": width(32)},
    inputs={
        "q": tensor("B", "T", "HQ", "2*(S+U+R)"),
        "k": tensor("B", "T", "HK", "2*(S+U+R)"),
        "cos": tensor(3, "B", "T", "S+U+R", grad=False, draw=Draw.UNIT),
        "sin": tensor(3, "B", "T", "S+U+R", grad=False, draw=Draw.UNIT),
    },
)
def qwen2vl_mrope(q, k, cos, sin, S, U, R):
    from liger_kernel.ops.qwen2vl_mrope import LigerQwen2VLMRopeFunction

    q, k = LigerQwen2VLMRopeFunction.apply(q.transpose(1, 2), k.transpose(1, 2), doubled(cos), doubled(sin), [S, U, R])
    return q.transpose(1, 2), k.transpose(1, 2)


@qwen2vl_mrope.reference
def qwen2vl_mrope_reference(q, k, cos, sin, S, U):
    cos, sin = (by_section(angle, S, U) for angle in (cos, sin))
    return turned(q, cos, sin), turned(k, cos, sin)


def doubled(angles):
    """Repeat the angles for both halves of a head, as the library expects."""
    return angles.repeat(*(1,) * (angles.dim() - 1), 2)


def by_section(angles, first, second):
    """Take the angles of time for the first pairs of a head, of height for the next, and of width for the rest."""
    time, height, width = angles
    return joined(time[..., :first], height[..., first : first + second], width[..., first + second :])


def joined(*parts):
    """Concatenate along the last axis."""
    import torch

    return torch.cat(parts, -1)


def turned(heads, cos, sin):
    """Rotate the first pairs of each head by their angles; the rest stays."""
    pairs = cos.shape[-1]
    left, right, rest = heads.tensor_split((pairs, 2 * pairs), -1)
    cos, sin = cos[:, :, None], sin[:, :, None]
    return joined(left * cos - right * sin, right * cos + left * sin, rest)
