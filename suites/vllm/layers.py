"""Layers of vLLM: products and norms that do not depend on the batch, gated norms, merged attention, experts."""

from harness.suite import Dim, DType, groups, op, tensor, tokens, width

LIBRARY = {"requires": ("sources:vllm",), "stubs": {"vllm": "vllm_stubs.py"}}
EPS = 1e-6


@op(
    **LIBRARY,
    dims={"M": tokens(600, grows=False), "K": width(300), "N": width(300)},
    inputs={
        "a": tensor("M", "K", grad=False),
        "b": tensor("K", "N", grad=False),
        "bias": tensor("N", grad=False, optional=True),
    },
)
def persistent_product(a, b, bias):
    from vllm.model_executor.layers.batch_invariant import matmul_persistent

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
    from vllm.model_executor.layers.batch_invariant import bmm_batch_invariant

    return bmm_batch_invariant(a, b)


@batched_product.reference
def batched_product_reference(a, b):
    return a @ b


@op(
    **LIBRARY,
    dims={"T": tokens(1024), "D": width(4096)},
    inputs={"x": tensor("T", "D", grad=False)},
    apart=("T",),
)
def log_softmax(x):
    from vllm.model_executor.layers.batch_invariant import log_softmax as apply

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
    from vllm.model_executor.layers.batch_invariant import mean_dim

    return mean_dim(x, dim, keepdim=keepdim)


@mean.reference
def mean_reference(x, dim, keepdim):
    return x.mean(dim, keepdim=keepdim)


@op(
    **LIBRARY,
    dims={"T": tokens(1024), "D": width(4096)},
    inputs={"x": tensor("T", "D", grad=False), "weight": tensor("D", grad=False)},
    apart=("T",),
)
def rms_norm(x, weight):
    from vllm.model_executor.layers.batch_invariant import rms_norm_batch_invariant

    return rms_norm_batch_invariant(x, weight, EPS)


@rms_norm.reference
def rms_norm_reference(x, weight):
    return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * weight


@op(
    **LIBRARY,
    dims={"T": tokens(2048, grows=False), "D": width(512)},
    inputs={"x": tensor("T", "D", grad=False)},
    apart=("T",),
)
def l2norm(x):
    from vllm.model_executor.layers.fla.ops.l2norm import l2norm_fwd

    return l2norm_fwd(x.contiguous(), EPS)


@l2norm.reference
def l2norm_reference(x):
    return x / (x.square().sum(-1, keepdim=True) + EPS).sqrt()


@op(
    **LIBRARY,
    dims={"T": tokens(1024, grows=False), "G": groups(1, 2, 3), "D": width(512)},
    inputs={
        "x": tensor("T", "G*D", grad=False),
        "weight": tensor("G*D", grad=False),
        "bias": tensor("G*D", grad=False, optional=True),
        "z": tensor("T", "G*D", grad=False, optional=True),
    },
    options={"norm_before_gate": (True, False), "is_rms_norm": (False, True), "activation": ("swish", "sigmoid")},
)
def gated_layer_norm(x, weight, bias, z, D, norm_before_gate, is_rms_norm, activation):
    from vllm.model_executor.layers.fla.ops.layernorm_guard import layer_norm_fwd

    x, weight, bias, z = (None if one is None else one.contiguous() for one in (x, weight, bias, z))
    return layer_norm_fwd(
        x,
        weight,
        bias,
        EPS,
        z=z,
        group_size=D,
        norm_before_gate=norm_before_gate,
        is_rms_norm=is_rms_norm,
        activation=activation,
    )[0]


@gated_layer_norm.reference
def gated_layer_norm_reference(x, weight, bias, z, D, norm_before_gate, is_rms_norm, activation):
    gate = 1 if z is None else z.sigmoid() * (z if activation == "swish" else 1)
    rows = (x if norm_before_gate else x * gate).unflatten(-1, (-1, D))
    centred = rows if is_rms_norm else rows - rows.mean(-1, keepdim=True)
    normed = (centred / (centred.square().mean(-1, keepdim=True) + EPS).sqrt()).flatten(-2) * weight
    normed = normed if bias is None else normed + bias
    return normed * gate if norm_before_gate else normed


@op(
    **LIBRARY,
    dims={"T": tokens(512, grows=False), "H": groups(1, 2, 3, 8), "D": width(256)},
    inputs={
        "prefix": tensor("T", "H", "D", grad=False),
        "prefix_lse": tensor("H", "T", grad=False, dtype=DType.FP32),
        "suffix": tensor("T", "H", "D", grad=False),
        "suffix_lse": tensor("H", "T", grad=False, dtype=DType.FP32),
    },
    options={"returns_lse": (False, True)},
    apart=("T", "H"),
)
def merged_attention(prefix, prefix_lse, suffix, suffix_lse, returns_lse):
    """Merge the outputs of attention over two parts of the keys."""
    from vllm.v1.attention.ops.triton_merge_attn_states import merge_attn_states

    prefix, prefix_lse, suffix, suffix_lse = (one.contiguous() for one in (prefix, prefix_lse, suffix, suffix_lse))
    output = prefix.new_empty(prefix.shape)
    lse = prefix_lse.new_empty(prefix_lse.shape) if returns_lse else None
    merge_attn_states(output, prefix, prefix_lse, suffix, suffix_lse, lse)
    return (output, lse) if returns_lse else output


@merged_attention.reference
def merged_attention_reference(prefix, prefix_lse, suffix, suffix_lse, returns_lse):
    top = prefix_lse.maximum(suffix_lse)
    first, second = (prefix_lse - top).exp(), (suffix_lse - top).exp()
    share = (first / (first + second)).T[..., None]
    output = prefix * share + suffix * (second / (first + second)).T[..., None]
    return (output, top + (first + second).log()) if returns_lse else output


@op(
    **LIBRARY,
    dims={"T": tokens(1024, grows=True), "K": groups(1, 2, 3, 8), "D": width(2048)},
    inputs={"x": tensor("T", "K", "D", grad=False), "weights": tensor("T", "K", grad=False)},
)
def sum_of_experts(x, weights):
    from vllm.model_executor.layers.fused_moe.moe_fused_mul_sum import moe_fused_mul_sum

    return moe_fused_mul_sum(x.contiguous(), weights.contiguous())


@sum_of_experts.reference
def sum_of_experts_reference(x, weights):
    return (x * weights[..., None]).sum(1)
