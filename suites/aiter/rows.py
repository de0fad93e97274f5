"""Kernels of aiter that compute row by row: softmax, gated activations, sums, the largest of a row."""

from harness.suite import Dim, groups, op, tensor, tokens, width

LIBRARY = {"requires": ("amd-aiter",), "stubs": {"aiter": "aiter_stubs.py"}}


def activated(x, activation):
    """Return SiLU, or GELU, by its integral or by a hyperbolic tangent."""
    if activation == "silu":
        return x * x.sigmoid()
    if activation == "gelu":
        return x * (1 + (x * 0.5**0.5).erf()) / 2
    return x * (1 + ((x + 0.044715 * x**3) * (2 / 3.141592653589793) ** 0.5).tanh()) / 2


@op(
    **LIBRARY,
    dims={"T": tokens(1024), "D": width(4096)},
    inputs={"x": tensor("T", "D", grad=False)},
    contiguous="rows",
    apart=("T",),
)
def softmax(x):
    from aiter.ops.triton.softmax import softmax as apply

    return apply(x)


@softmax.reference
def softmax_reference(x):
    return x.softmax(-1)


@op(
    **LIBRARY,
    dims={"T": tokens(512), "D": width(1024)},
    inputs={"x": tensor("T", "2*D", grad=False)},
    contiguous=True,
    apart=("T",),
)
def silu_times_gate(x):
    from aiter.ops.triton.activation import fused_silu_mul

    return fused_silu_mul(x)


@silu_times_gate.reference
def silu_times_gate_reference(x):
    left, right = x.chunk(2, -1)
    return activated(left, "silu") * right


@op(
    **LIBRARY,
    dims={"T": tokens(256), "D": Dim(low=1, high=12)},
    inputs={
        "x": tensor("T", "2*128*D", grad=False),
        "weights": tensor("T", 1, grad=False, optional=True),
    },
    options={"activation": ("silu", "gelu", "gelu_tanh"), "limit": (0, 7)},
    contiguous=True,
    apart=("T",),
)
def clamped_gate(x, weights, activation, limit):
    from aiter.ops.triton.fusions.fused_clamp_act_mul import fused_clamp_act_mul

    return fused_clamp_act_mul(x, swiglu_limit=limit, activation=activation, weights=weights)


@clamped_gate.reference
def clamped_gate_reference(x, weights, activation, limit):
    gate, up = x.chunk(2, -1)
    if limit:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    y = activated(gate, activation) * up
    return y if weights is None else y * weights


@op(
    **LIBRARY,
    dims={"T": tokens(128), "D": width(512)},
    inputs={"x": tensor("T", "D", grad=False), "a": tensor("T", "D", grad=False), "b": tensor(1, grad=False)},
    options={"scalar": (False, True)},
    contiguous=True,
)
def product_and_sum(x, a, b, scalar):
    """Compute x a + b, where a and b are tensors, one element, or a number."""
    import torch
    from aiter.ops.triton.fusions.fused_mul_add import fused_mul_add

    return fused_mul_add(x, 1.5 if scalar else a, b, torch.empty_like(x))


@product_and_sum.reference
def product_and_sum_reference(x, a, b, scalar):
    return x * (1.5 if scalar else a) + b


@op(
    **LIBRARY,
    dims={"B": Dim(low=1, high=64), "M": Dim(low=8, high=5000), "K": Dim(low=1, high=8)},
    inputs={"x": tensor("B", "M", grad=False)},
    apart=("B",),
)
def largest(x, K):
    """Return the largest numbers of each row, in order; of equal numbers any index will do."""
    from aiter.ops.triton.topk import topk

    values, indices = topk(x, K)
    return values, x.gather(-1, indices.clamp(0, x.shape[-1] - 1))


@largest.reference
def largest_reference(x, K):
    values = x.topk(K, -1).values
    return values, values


@op(
    **LIBRARY,
    dims={
        "B": tokens(64),
        "G": Dim(low=1, high=3),
        "R": Dim(low=1, high=4),
        "N": groups(64, 128, 512),
        "P": groups(32, 64),
    },
    inputs={
        "q": tensor("B", "G*R", "N", grad=False),
        "q_rest": tensor("B", "G*R", "P", grad=False),
        "k": tensor("B", "G", "N", grad=False),
        "k_rest": tensor("B", "G", "P", grad=False),
    },
    apart=("B",),
)
def joined(q, q_rest, k, k_rest):
    from aiter.ops.triton.fusions.fused_qk_concat import fused_qk_cat

    return fused_qk_cat(q, q_rest, k, k_rest)


@joined.reference
def joined_reference(q, q_rest, k, k_rest):
    import torch

    return torch.cat((q, q_rest), -1), torch.cat((k, k_rest), -1)
