"""Elementwise layers, norms and quantisation of SGLang, and what its grammar and router do to logits."""

from harness.suite import Dim, DType, beside, groups, integers, op, tensor, tokens, width

LIBRARY = {"requires": ("sources:sglang",), "stubs": {"sglang": "sglang_stubs.py"}}
EPS = 1e-6
CAP = 30.0
places = beside(__file__, "places.py")
OLD = "sglang.srt.layers.elementwise"
NORMS = (f"{places.OPS}layernorm.fused_rmsnorm", f"{places.OPS}elementwise.elementwise", OLD)
ROWS = {"T": tokens(512), "D": width(4096)}
NORMED = {"T": tokens(512), "D": width(8192)}


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={"x": tensor("T", "D", grad=False)},
    options={"autotune": (False, True)},
)
def softcap(x, autotune):
    from sglang.srt.layers.elementwise import fused_softcap

    return fused_softcap(x.contiguous(), CAP, autotune=autotune)


@softcap.reference
def softcap_reference(x):
    return (x / CAP).tanh() * CAP


@op(
    **LIBRARY,
    dims=NORMED,
    inputs={"x": tensor("T", "D", grad=False), "weight": tensor("D", grad=False)},
    apart=("T",),
)
def rms_norm(x, weight):
    return places.function("fused_rmsnorm", *NORMS)(x.contiguous(), weight.contiguous(), EPS)


@rms_norm.reference
def rms_norm_reference(x, weight):
    return over_rms(x) * weight


@op(
    **LIBRARY,
    dims=NORMED,
    inputs={
        "x": tensor("T", "D", grad=False),
        "residual": tensor("T", "D", grad=False),
        "weight1": tensor("D", grad=False),
        "weight2": tensor("D", grad=False),
    },
    apart=("T",),
)
def two_rms_norms(x, residual, weight1, weight2):
    apply = places.function("fused_dual_residual_rmsnorm", *NORMS)
    return apply(*(one.contiguous() for one in (x, residual, weight1, weight2)), EPS)


@two_rms_norms.reference
def two_rms_norms_reference(x, residual, weight1, weight2):
    total = residual + over_rms(x) * weight1
    return over_rms(total) * weight2, total


@op(
    **LIBRARY,
    dims={"T": tokens(512), "K": groups(1, 2, 4, 8), "D": width(2048)},
    inputs={"experts": tensor("T", "K", "D", grad=False), "shared": tensor("T", "D", grad=False)},
    apart=("T",),
)
def experts_combined(experts, shared):
    from sglang.srt.layers.elementwise import experts_combine_triton

    return experts_combine_triton(experts.contiguous(), shared.contiguous())


@experts_combined.reference
def experts_combined_reference(experts, shared):
    return (experts.sum(1) + shared) / 2**0.5


@op(
    **LIBRARY,
    dims={"T": tokens(512), "D": width(4096)},
    inputs={"x": tensor("T", "2*D", grad=False)},
    options={"kind": ("silu", "gelu")},
    apart=("T",),
)
def gated_unit(x, kind):
    newest = f"{places.OPS}activation.gelu_and_mul_triton"
    return places.function(f"{kind}_and_mul_triton", newest, f"{places.OPS}elementwise.elementwise", OLD)(
        x.contiguous()
    )[0]


@gated_unit.reference
def gated_unit_reference(x, kind):
    import torch

    gate, up = x.chunk(2, -1)
    return up * gate * (gate.sigmoid() if kind == "silu" else (1 + torch.erf(gate / 2**0.5)) / 2)


@op(
    **LIBRARY,
    dims={"M": tokens(400, grows=False), "K": width(300), "N": width(300)},
    inputs={
        "a": tensor("M", "K", grad=False),
        "b": tensor("K", "N", grad=False),
        "bias": tensor("N", grad=False, optional=True),
    },
)
def persistent_product(a, b, bias):
    from sglang.srt.batch_invariant_ops.batch_invariant_ops import matmul_persistent

    return matmul_persistent(a, b, bias)


@persistent_product.reference
def persistent_product_reference(a, b, bias):
    return a @ b if bias is None else a @ b + bias


@op(
    **LIBRARY,
    dims={"B": groups(1, 2, 3), "M": Dim(low=1, high=200), "K": width(200), "N": width(200)},
    inputs={"a": tensor("B", "M", "K", grad=False), "b": tensor("B", "K", "N", grad=False)},
    apart=("B",),
)
def batched_product(a, b):
    from sglang.srt.batch_invariant_ops.batch_invariant_ops import bmm_batch_invariant

    return bmm_batch_invariant(a, b)


@batched_product.reference
def batched_product_reference(a, b):
    return a @ b


@op(**LIBRARY, dims=ROWS, inputs={"x": tensor("T", "D", grad=False)}, apart=("T",))
def log_softmax(x):
    from sglang.srt.batch_invariant_ops.batch_invariant_ops import log_softmax as apply

    return apply(x)


@log_softmax.reference
def log_softmax_reference(x):
    shifted = x - x.amax(-1, keepdim=True)
    return shifted - shifted.exp().sum(-1, keepdim=True).log()


@op(
    **LIBRARY,
    dims={"M": Dim(low=1, high=64), "N": Dim(low=1, high=300), "K": Dim(low=1, high=64)},
    inputs={"x": tensor("M", "N", "K", grad=False)},
    options={"dim": (0, 1, 2), "keepdim": (False, True)},
)
def mean(x, dim, keepdim):
    from sglang.srt.batch_invariant_ops.batch_invariant_ops import mean_dim

    return mean_dim(x, dim, keepdim=keepdim)


@mean.reference
def mean_reference(x, dim, keepdim):
    return x.mean(dim, keepdim=keepdim)


@op(
    **LIBRARY,
    dims={"T": tokens(512), "H": Dim(low=1, high=40)},
    inputs={
        "decay": tensor("H", grad=False, dtype=DType.FP32),
        "a": tensor("T", "H", grad=False),
        "b": tensor("T", "H", grad=False),
        "bias": tensor("H", grad=False),
    },
    apart=("T", "H"),
)
def delta_rule_gates(decay, a, b, bias):
    newest = f"{places.OPS}attention.linear.fused_gdn_gating"
    old = "sglang.srt.layers.attention.fla.fused_gdn_gating"
    return places.function("fused_gdn_gating", newest, f"{places.OPS}attention.fla.fused_gdn_gating", old)(
        decay.contiguous(), *(one.contiguous() for one in (a, b, bias))
    )


@delta_rule_gates.reference
def delta_rule_gates_reference(decay, a, b, bias):
    import torch

    x = a + bias
    return (-decay.exp() * torch.logaddexp(x, torch.zeros_like(x)))[None], b.sigmoid()[None]


@op(
    **LIBRARY,
    dims={"T": tokens(1024, grows=False), "D": width(512)},
    inputs={"x": tensor("T", "D", grad=False)},
    apart=("T",),
)
def l2norm(x):
    old = "sglang.srt.layers.attention.fla.l2norm"
    return places.function("l2norm_fwd", f"{places.OPS}attention.fla.l2norm", old)(x.contiguous(), EPS)


@l2norm.reference
def l2norm_reference(x):
    return x / (x.square().sum(-1, keepdim=True) + EPS).sqrt()


@op(
    **LIBRARY,
    dims={"T": Dim(low=1, high=16), "V": width(20_000)},
    inputs={"logits": tensor("T", "V", grad=False), "allowed": integers("T", "V", high=2)},
)
def grammar(logits, allowed):
    """Ban what a grammar does not allow."""
    import torch

    if torch.version.hip:
        raise NotImplementedError("SGLang calls a compiled kernel on AMD's GPUs")
    old = "sglang.srt.constrained.triton_ops.bitmask_ops"
    apply = places.function("apply_token_bitmask_inplace_triton", f"{places.OPS}grammar.bitmask_ops", old)
    logits = logits.clone(memory_format=contiguous())
    apply(logits, beside(__file__, "../vllm/packed_bits.py").packed_bits(allowed))
    return logits


@grammar.reference
def grammar_reference(logits, allowed):
    return logits.masked_fill(allowed == 0, float("-inf"))


def contiguous():
    import torch

    return torch.contiguous_format


@op(**LIBRARY, dims=ROWS, inputs={"x": tensor("T", "D", grad=False)}, apart=("T",))
def to_eight_bits(x):
    """Quantise each row by its largest magnitude; the result is what the codes stand for."""
    old = "sglang.srt.layers.quantization.int8_kernel"
    apply = places.function("per_token_quant_int8", f"{places.OPS}quantization.int8_kernel", old)
    codes, scales = apply(x.contiguous())
    return codes.float() * scales, scales


@to_eight_bits.reference
def to_eight_bits_reference(x):
    largest = x.abs().amax(-1, keepdim=True).clamp(min=1e-10)
    return (x * (127 / largest)).round() * largest / 127, largest / 127


def over_rms(rows):
    return rows / (rows.square().mean(-1, keepdim=True) + EPS).sqrt()
