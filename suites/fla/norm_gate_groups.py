"""The norms of Mamba-2 in flash-linear-attention: over groups of channels, gated by silu before or after."""

from harness.suite import groups, op, tensor, tokens, width

LIBRARY = (("fla-core", "flash-linear-attention"),)
EPS = 1e-5


@op(
    requires=LIBRARY,
    dims={"T": tokens(2048), "G": groups(1, 2, 3, 4, 8), "D": width(512)},
    inputs={
        "x": tensor("T", "G*D"),
        "weight": tensor("G*D"),
        "bias": tensor("G*D", optional=True),
        "z": tensor("T", "G*D", optional=True),
    },
    options={"norm_before_gate": (True, False), "is_rms_norm": (False, True)},
)
def grouped_norm_gated(x, weight, bias, z, D, norm_before_gate, is_rms_norm):
    from fla.modules.layernorm_gated import layernorm_fn

    return layernorm_fn(x, weight, bias, z, EPS, D, norm_before_gate, is_rms_norm)


@grouped_norm_gated.reference
def grouped_norm_gated_reference(x, weight, bias, z, G, D, norm_before_gate, is_rms_norm):
    gate = None if z is None else z * z.sigmoid()
    rows = (x if gate is None or norm_before_gate else x * gate).unflatten(-1, (G, D))
    rows = rows if is_rms_norm else rows - rows.mean(-1, keepdim=True)
    y = (rows / (rows.square().mean(-1, keepdim=True) + EPS).sqrt()).flatten(-2) * weight
    y = y if bias is None else y + bias
    return y * gate if gate is not None and norm_before_gate else y
