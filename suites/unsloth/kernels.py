"""The kernels of unsloth that replace layers of a model: layer norm and rotary embedding."""

from harness.suite import Draw, op, tensor, tokens, width

LIBRARY = ("unsloth",)
EPS = 1e-5


@op(
    requires=LIBRARY,
    dims={"T": tokens(2048), "D": width(4096)},
    inputs={"x": tensor("T", "D"), "weight": tensor("D", grad=False), "bias": tensor("D", grad=False)},
)
def layer_norm(x, weight, bias):
    from unsloth.kernels.layernorm import Fast_Layernorm

    return Fast_Layernorm.apply(x, weight, bias, EPS)


@layer_norm.reference
def layer_norm_reference(x, weight, bias):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + EPS).sqrt() * weight + bias


@op(
    requires=LIBRARY,
    dims={"B": width(8), "T": tokens(512), "H": width(40), "R": width(128)},
    inputs={
        "heads": tensor("B", "T", "H", "2*R"),
        "cos": tensor("T", "R", grad=False, draw=Draw.UNIT),
        "sin": tensor("T", "R", grad=False, draw=Draw.UNIT),
    },
)
def rope(heads, cos, sin):
    from unsloth.kernels.rope_embedding import Fast_RoPE_Embedding

    # The library's tables hold each angle twice, for both halves of a head; its heads come from a linear layer.
    return Fast_RoPE_Embedding.apply(heads.contiguous(), cos.repeat(1, 2), sin.repeat(1, 2))


@rope.reference
def rope_reference(heads, cos, sin):
    import torch

    left, right = heads.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)
