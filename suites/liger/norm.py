"""The norms of Liger-Kernel: RMS norm with its casting modes, layer norm, norms of sums, groups and powers, DyT."""

from harness.suite import Dim, DType, beside, groups, op, tensor, tokens, width

LIBRARY = ("liger-kernel",)
EPS = 1e-6
CASTING = ("llama", "gemma")
UNCAST = (DType.FP32, DType.BF16)
"""Without casting, the library computes in the case's type, as documented, and squares soon overflow float16."""
apply = beside(__file__, "applying.py").apply


GRID = 2**31 - 1
"""The limit of programs along x, of which each row takes one."""
ROWS = {"T": Dim(low=1, high=2048, grows=True, largest=GRID), "D": width(4096)}
NORMED = {
    # from 32,768 rows on, narrow rows share a program
    "dims": {"T": Dim(low=1, high=66_000, grows=True, largest=GRID), "D": width(4096)},
    "inputs": {"x": tensor("T", "D"), "weight": tensor("D", optional=True)},
}
ADDED = {"dims": ROWS, "inputs": {"x": tensor("T", "D"), "residual": tensor("T", "D"), "weight": tensor("D")}}
SETTINGS = {"offset": (0.0, 1.0), "in_place": (True, False)}
BY_ROWS = {"row_mode": (None, True)}


def call_rms_norm(x, weight, casting_mode, offset, in_place, row_mode):
    """Call the library's RMS norm."""
    from liger_kernel.ops import rms_norm as module

    kernel = getattr(module, "_rms_norm_forward_kernel", None)
    if weight is None and (kernel is None or "elementwise_affine" not in kernel.arg_names):
        raise NotImplementedError("RMS norm of this release needs a weight")
    return apply(
        module.LigerRMSNormFunction,
        X=x,
        W=weight,
        eps=EPS,
        offset=offset,
        casting_mode=casting_mode,
        in_place=in_place,
        row_mode=row_mode,
    )


@op(requires=LIBRARY, **NORMED, options={"casting_mode": CASTING, **SETTINGS, **BY_ROWS}, independent=("T",))
def rms_norm(x, weight, casting_mode, offset, in_place, row_mode):
    return call_rms_norm(x, weight, casting_mode, offset, in_place, row_mode)


@rms_norm.reference
def rms_norm_reference(x, weight, offset):
    return over_rms(x) if weight is None else over_rms(x) * (weight + offset)


@op(requires=LIBRARY, **NORMED, options={**SETTINGS, **BY_ROWS}, dtypes=UNCAST, independent=("T",))
def rms_norm_uncast(x, weight, offset, in_place, row_mode):
    return call_rms_norm(x, weight, "none", offset, in_place, row_mode)


rms_norm_uncast.reference(rms_norm_reference)


def call_fused_add(x, residual, weight, casting_mode, offset, in_place):
    """Call the library's RMS norm of a sum."""
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction

    return apply(
        LigerFusedAddRMSNormFunction,
        X=x,
        R=residual,
        W=weight,
        eps=EPS,
        offset=offset,
        casting_mode=casting_mode,
        in_place=in_place,
    )


@op(requires=LIBRARY, **ADDED, options={"casting_mode": CASTING, **SETTINGS}, independent=("T",))
def fused_add_rms_norm(x, residual, weight, casting_mode, offset, in_place):
    return call_fused_add(x, residual, weight, casting_mode, offset, in_place)


@fused_add_rms_norm.reference
def fused_add_rms_norm_reference(x, residual, weight, offset):
    return over_rms(x + residual) * (weight + offset), x + residual


@op(requires=LIBRARY, **ADDED, options=SETTINGS, dtypes=UNCAST, independent=("T",))
def fused_add_rms_norm_uncast(x, residual, weight, offset, in_place):
    return call_fused_add(x, residual, weight, "none", offset, in_place)


fused_add_rms_norm_uncast.reference(fused_add_rms_norm_reference)


@op(
    requires=LIBRARY,
    dims=ROWS,
    inputs={"x": tensor("T", "D"), "weight": tensor("D"), "bias": tensor("D")},
    independent=("T",),
)
def layer_norm(x, weight, bias):
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction

    return LigerLayerNormFunction.apply(x, weight, bias, EPS)


@layer_norm.reference
def layer_norm_reference(x, weight, bias):
    return over_rms(x - x.mean(-1, keepdim=True)) * weight + bias


@op(
    requires=LIBRARY,
    # No long B: all programs add to the same cells atomically, and to check the order of so many takes a minute.
    dims={"B": tokens(64, long=0), "G": groups(1, 2, 3, 4, 8), "C": width(16), "L": width(4096)},
    inputs={"x": tensor("B", "G*C", "L"), "weight": tensor("G*C"), "bias": tensor("G*C")},
    independent=("B",),
)
def group_norm(x, weight, bias, G, C):
    from liger_kernel.ops.group_norm import LigerGroupNormFunction

    return LigerGroupNormFunction.apply(x, weight, bias, G * C, G, EPS)


@group_norm.reference
def group_norm_reference(x, weight, bias, G, C):
    rows = x.unflatten(1, (G, C)).flatten(2)
    normed = over_rms(rows - rows.mean(-1, keepdim=True)).unflatten(-1, (C, -1)).flatten(1, 2)
    return normed * weight[:, None] + bias[:, None]


@op(
    requires=LIBRARY,
    dims=ROWS,
    inputs={"x": tensor("T", "D"), "weight": tensor(3), "bias": tensor(1)},
    options={"in_place": (True, False)},
    independent=("T",),
)
def poly_norm(x, weight, bias, in_place):
    from liger_kernel.ops.poly_norm import LigerPolyNormFunction

    return LigerPolyNormFunction.apply(x, weight, bias.reshape(()), EPS, in_place)


@poly_norm.reference
def poly_norm_reference(x, weight, bias):
    return weight[0] * over_rms(x * x * x) + weight[1] * over_rms(x * x) + weight[2] * over_rms(x) + bias


@op(
    requires=LIBRARY,
    dims={"T": tokens(2048), "D": width(8192)},
    inputs={"x": tensor("T", "D"), "alpha": tensor(1), "gamma": tensor("D"), "beta": tensor("D", optional=True)},
    independent=("T",),
)
def dyt(x, alpha, gamma, beta):
    from liger_kernel.ops.dyt import LigerDyTFunction

    return LigerDyTFunction.apply(x, alpha, gamma, beta)


@dyt.reference
def dyt_reference(x, alpha, gamma, beta):
    scaled = (alpha * x).tanh() * gamma
    return scaled if beta is None else scaled + beta


def over_rms(rows):
    """Divide each row by its root mean square, in elementary operations, so that the harness sees every rounding."""
    return rows / (rows.square().mean(-1, keepdim=True) + EPS).sqrt()
