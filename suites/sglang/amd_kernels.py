"""Kernels that SGLang launches on AMD's GPUs alone: routers, gates, split decoding, and tables of pages."""

from harness.suite import Dim, Draw, DType, beside, groups, integers, op, tensor

LIBRARY = {"requires": ("sglang",), "stubs": {"sglang": "sglang_stubs.py"}}
OPS = beside(__file__, "places.py").OPS
function = beside(__file__, "places.py").function
EXPERTS = 384
"""The router of DeepSeek-V4: six experts for each lane of a wave."""


@op(
    **LIBRARY,
    dims={"M": Dim(low=1, high=64), "NB": Dim(low=1, high=8), "KB": Dim(low=1, high=4)},
    inputs={"x": tensor("M", "512*KB", grad=False), "w": tensor("16*NB", "512*KB", grad=False)},
    dtypes=(DType.BF16,),
    contiguous="rows",
    independent=("M",),
)
def router_product(x, w):
    """Parts of the sum are stored, and added in their order."""
    parts = function("rocm_router_gemv_split_k", f"{OPS}gemm.router_gemv_hip")(x, w)
    total = parts.new_empty(parts.shape[1:])
    function("rocm_router_reduce_partials", f"{OPS}gemm.router_gemv_hip")(parts, total)
    return total


@router_product.reference
def router_product_reference(x, w):
    return x @ w.T


@op(
    **LIBRARY,
    dims={"M": Dim(low=1, high=40), "K": Dim(low=1, high=16)},
    inputs={
        "logits": tensor("M", EXPERTS, grad=False),
        "bias": tensor(EXPERTS, grad=False, optional=True, dtype=DType.FP32, contiguous=True),
    },
    options={"normalise": (True, False), "shared": (0, 1)},
    dtypes=(DType.FP32, DType.BF16),
    contiguous="rows",
    apart=("M",),
)
def router_gate(logits, bias, normalise, shared, K):
    """The best experts by the root of the softplus and a bias; shared experts have the share 1."""
    gate = function("rocm_router_gate", f"{OPS}moe.rocm_router_gate")
    shares, ids = gate(logits, bias, K, normalise, 2.5, num_shared=shared)
    chosen = scores(logits.float(), bias).gather(-1, ids[:, :K].long().clamp(0, EXPERTS - 1))
    return shares.sort(-1).values, chosen.sort(-1).values


@router_gate.reference
def router_gate_reference(logits, bias, normalise, shared, K):
    import torch

    best, ids = scores(logits, bias).topk(K, -1)
    shares = scores(logits, None).gather(-1, ids)
    shares = shares / shares.sum(-1, keepdim=True).clamp(min=1e-20) * 2.5 if normalise else shares * 2.5
    shares = torch.cat((shares, shares.new_ones(len(shares), shared)), -1)
    return shares.sort(-1).values, best.sort(-1).values


def scores(logits, bias):
    import torch

    root = torch.logaddexp(logits, torch.zeros_like(logits)).sqrt()
    return root if bias is None else root + bias.to(root.dtype)


@op(
    **LIBRARY,
    dims={"M": Dim(low=1, high=100, grows=True, largest=65_536), "GB": Dim(low=1, high=50)},
    inputs={"x": tensor("M", "64*GB", grad=False)},
    options={"limit": (7.0, 0.5)},
    dtypes=(DType.BF16, DType.FP16),
    contiguous="rows",
    apart=("M",),
)
def clamped_gate(x, limit):
    launch = function("silu_and_mul_clamp_triton", f"{OPS}activation.silu_and_mul_clamp_hip")
    return launch(x, limit)


@clamped_gate.reference
def clamped_gate_reference(x, limit):
    gate, up = x.chunk(2, -1)
    gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    return gate * gate.sigmoid() * up


@op(
    **LIBRARY,
    dims={"T": Dim(low=1, high=40), "S": Dim(low=1, high=6), "H": Dim(low=1, high=8), "D": groups(64, 128, 512)},
    inputs={
        "parts": tensor("T", "S", "H", "D", grad=False, dtype=DType.FP32),
        "peaks": tensor("T", "S", "H", grad=False, dtype=DType.FP32),
        "sums": tensor("T", "S", "H", grad=False, dtype=DType.FP32, draw=Draw.POSITIVE),
        "sinks": tensor("H", grad=False, optional=True),
    },
    options={"output_dtype": ("bfloat16", "float16")},
    dtypes=(DType.BF16,),
    contiguous=True,
    apart=("T",),
    refuses=("AssertionError",),  # strides of axes with one element are compared, too
)
def joined_splits(parts, peaks, sums, sinks, output_dtype):
    """Each part has the largest score, in powers of two, and the sum of its weights."""
    import torch

    join = function("gfx_sparse_split_reduce", f"{OPS}attention.sparse_decode_reduce_hip")
    return join(parts, peaks, sums, sinks, getattr(torch, output_dtype))


@joined_splits.reference
def joined_splits_reference(parts, peaks, sums, sinks):
    import torch

    top = peaks.amax(1)
    if sinks is not None:
        sink = sinks.to(top.dtype) / torch.tensor(2.0, dtype=top.dtype).log()
        top = top.maximum(sink)
    weights = (peaks - top[:, None]).exp2()
    total = (weights * sums).sum(1)
    total = total if sinks is None else total + (sink - top).exp2()
    return (weights[..., None] * parts).sum(1) / total[..., None]


@op(
    **LIBRARY,
    dims={"T": Dim(low=1, high=40), "N": Dim(low=1, high=8), "D": Dim(low=1, high=600)},
    inputs={
        "prefix": tensor("T", "D", grad=False),
        "bank": tensor("T", "N", "D", grad=False),
        "factors": tensor("D", grad=False, dtype=DType.FP32),
        "weight": tensor("D", grad=False, optional=True),
    },
    dtypes=(DType.BF16,),
    contiguous=True,
    apart=("T",),
)
def attention_over_residuals(prefix, bank, factors, weight, N):
    """Softmax over the normed rows of a bank and the prefix, and a norm of the sum."""
    import torch

    launch = function("attn_res_hip", f"{OPS}attention.attn_res_hip")
    output = torch.empty_like(prefix)
    launch(prefix, bank, factors, weight, output, N, 1e-6, 1e-5)
    return output


@attention_over_residuals.reference
def attention_over_residuals_reference(prefix, bank, factors, weight):
    import torch

    rows = torch.cat((bank, prefix[:, None]), 1)
    normed = rows / (rows.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    shares = (normed * factors.to(rows.dtype)).sum(-1).softmax(-1)
    total = (rows * shares[..., None]).sum(1)
    if weight is None:
        return total
    return total / (total.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight


@op(
    **LIBRARY,
    dims={"M": Dim(low=1, high=60), "NB": Dim(low=1, high=10)},
    inputs={
        "x": tensor("M", "128*NB", grad=False),
        "scale": tensor("M", "NB", grad=False, dtype=DType.FP32),
        "received": integers(1, high="M+1", dtype="int32"),
    },
    options={"output_dtype": ("bfloat16", "float16")},
    dtypes=(DType.BF16, DType.FP16),
    defined=lambda received, M: beside(__file__, "amd_kernels.py").first(received, M)[:, None],
)
def upscaled_rows(x, scale, received, output_dtype):
    import torch

    return function("upscale", f"{OPS}quantization.rocm_upscale")(x, scale, received, getattr(torch, output_dtype))


def first(count, size):
    import torch

    return torch.arange(size) < count


@upscaled_rows.reference
def upscaled_rows_reference(x, scale):
    return x * scale.to(x.dtype).repeat_interleave(128, -1)


@op(
    **LIBRARY,
    dims={"B": Dim(low=1, high=10), "Q": Dim(low=1, high=4), "W": Dim(low=1, high=1500), "V": Dim(low=1, high=300)},
    inputs={
        "indices": integers("B", "Q", "W", high=10_000, dtype="int32"),
        "lengths": integers("B", high="W+1", dtype="int32"),
        "others": integers("B", "Q", "V", high=10_000, dtype="int32", optional=True),
    },
    contiguous=True,
)
def indices_within_lengths(indices, lengths, others):
    launch = function("mask_indices_by_length", f"{OPS}attention.dsv4.attn_glue_hip")
    return launch(indices, lengths, others, None if others is None else lengths)


@indices_within_lengths.reference
def indices_within_lengths_reference(indices, lengths, others):
    import torch

    def kept(one):
        return torch.where(torch.arange(one.shape[-1]) < lengths[:, None, None], one, -1)

    return (kept(indices),) if others is None else (kept(indices), kept(others))


@op(
    **LIBRARY,
    dims={"B": Dim(low=1, high=20), "R": Dim(low=1, high=20), "T": Dim(low=1, high=900), "S": groups(1, 16, 64)},
    inputs={
        "places": integers("R", "T", low=-1, high=1 << 20, dtype="int32"),
        "rows": integers("B", high="R"),
    },
    options={"parts": (1, 4)},
    contiguous="rows",
)
def pages_of_requests(places, rows, parts, S, T):
    """Each page is then divided into parts, which have numbers of their own."""
    module = f"{OPS}attention.dsv4.attn_glue_hip"
    table = function("page_table_from_req_to_token", module)(places, rows.contiguous(), T, S)
    return table, function("expand_index_page_table", module)(table, parts)


@pages_of_requests.reference
def pages_of_requests_reference(places, rows, parts, S):
    import torch

    table = places.long()[rows][:, ::S].div(S, rounding_mode="floor")
    divided = (table[..., None] * parts + torch.arange(parts)).flatten(1)
    return table.int(), divided.int()
