"""The L2 norm of flash-linear-attention, with and without another output type."""

from harness.suite import op, tensor, tokens, width

LIBRARY = (("fla-core", "flash-linear-attention"),)
EPS = 1e-6


@op(
    requires=LIBRARY,
    dims={"T": tokens(4096), "D": width(1024)},
    inputs={"x": tensor("T", "D")},
    options={"output_dtype": (None, "float32", "bfloat16")},
    independent=("T",),
)
def l2norm(x, output_dtype):
    import torch
    from fla.modules.l2norm import l2_norm

    return l2_norm(x, EPS, None if output_dtype is None else getattr(torch, output_dtype))


@l2norm.reference
def l2norm_reference(x):
    return x / (x.square().sum(-1, keepdim=True) + EPS).sqrt()


@op(
    requires=LIBRARY,
    dims={"B": tokens(8), "T": tokens(256), "H": tokens(8), "D": width(256)},
    inputs={"x": tensor("B", "T", "H", "D")},
    independent=("B", "T", "H"),
)
def l2norm_of_heads(x):
    from fla.modules.l2norm import l2_norm

    return l2_norm(x, EPS)


@l2norm_of_heads.reference
def l2norm_of_heads_reference(x):
    return l2norm_reference(x)
