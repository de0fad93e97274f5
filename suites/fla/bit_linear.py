"""The norm before a linear layer of 1.58 bits in flash-linear-attention: its rows are rounded to eight bits."""

from harness.suite import op, tensor, tokens, width

EPS = 1e-6


@op(
    requires=(("fla-core", "flash-linear-attention"),),
    dims={"T": tokens(512), "D": width(2048)},
    inputs={
        "x": tensor("T", "D", grad=False),
        "weight": tensor("D", grad=False, optional=True),
        "bias": tensor("D", grad=False, optional=True),
        "residual": tensor("T", "D", grad=False, optional=True),
    },
    options={"is_rms_norm": (False, True)},
    contiguous=True,
    apart=("T",),
)
def rounded_norm(x, weight, bias, residual, is_rms_norm):
    """The result is what the codes of eight bits stand for."""
    from fla.modules.fused_bitlinear import layer_norm_fwd_quant

    return layer_norm_fwd_quant(x, weight, bias, EPS, residual, is_rms_norm=is_rms_norm)[0]


@rounded_norm.reference
def rounded_norm_reference(x, weight, bias, residual, is_rms_norm):
    x = x if residual is None else x + residual
    x = x if is_rms_norm else x - x.mean(-1, keepdim=True)
    y = x / (x.square().mean(-1, keepdim=True) + EPS).sqrt()
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    scale = 127 / y.abs().amax(-1, keepdim=True).clamp(min=1e-5)
    return (y * scale).round().clamp(-128, 127) / scale
