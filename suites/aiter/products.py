"""Products of aiter: of 16 and 8 bits, by blocks, in batches and groups, and of four bits on GPUs that have them."""

from harness.suite import Dim, Draw, DType, beside, dequantised, groups, integers, op, sizes, tensor, tokens, width

LIBRARY = {"requires": ("amd-aiter",), "stubs": {"aiter": "aiter_stubs.py"}}
NO_CONFIG = ("AssertionError", "FileNotFoundError")
"""How aiter refuses an architecture for which it lists no config, or which has no numbers of four bits."""
PRODUCT = {
    **LIBRARY,
    "refuses": NO_CONFIG,
    "contiguous": "rows",
    "dims": {"M": tokens(300, grows=False), "N": width(300), "K": width(600)},
    "dtypes": (DType.BF16, DType.FP16),
}
X, W = tensor("M", "K", grad=False), tensor("N", "K", grad=False)


@op(
    **PRODUCT,
    inputs={"x": X, "w": W, "bias": tensor("N", grad=False, optional=True, contiguous=True)},
    options={"activation": (None, "silu", "gelu", "gelu_tanh", "relu")},
)
def product(x, w, bias, activation):
    from aiter.ops.triton.gemm.basic.gemm_a16w16 import gemm_a16w16

    return gemm_a16w16(x, w, bias=bias, dtype=x.dtype, activation=activation)


@product.reference
def product_reference(x, w, bias, activation):
    y = x @ w.T if bias is None else x @ w.T + bias
    if activation == "relu":
        return y.relu()
    return y if activation is None else beside(__file__, "rows.py").activated(y, activation)


@op(**PRODUCT, inputs={"x": X, "w": W})
def product_by_atomics(x, w):
    from aiter.ops.triton.gemm.basic.gemm_a16w16_atomic import gemm_a16w16_atomic

    return gemm_a16w16_atomic(x, w, dtype=x.dtype)


@product_by_atomics.reference
def product_by_atomics_reference(x, w):
    return x @ w.T


@op(
    **PRODUCT,
    inputs={"x": X, "w": tensor("2*N", "K", grad=False)},
    options={"activation": ("silu", "gelu_tanh")},
)
def gated_product(x, w, activation):
    from aiter.ops.triton.gemm.basic.gemm_a16w16_gated import gemm_a16w16_gated

    return gemm_a16w16_gated(x, w, dtype=x.dtype, activation=activation)


@gated_product.reference
def gated_product_reference(x, w, activation):
    gate, up = (x @ w.T).chunk(2, -1)
    return beside(__file__, "rows.py").activated(gate, activation) * up


SMALL = {"low": -7, "high": 8, "dtype": "int8"}
"""Integers that both types of eight bits have."""


def in_eight_bits(x, kind):
    return x if kind == "int8" else x.float().to(beside(__file__, "aiter_stubs.py").DTYPES.fp8)


@op(
    **{**PRODUCT, "dtypes": (DType.BF16,)},
    inputs={
        "x": integers("M", "K", **SMALL),
        "w": integers("N", "K", **SMALL),
        "x_scale": tensor("M", 1, draw=Draw.POSITIVE, grad=False, dtype=DType.FP32, contiguous=True),
        "w_scale": tensor(1, "N", draw=Draw.POSITIVE, grad=False, dtype=DType.FP32, contiguous=True),
        "bias": tensor("N", grad=False, optional=True, contiguous=True),
    },
    options={"kind": ("int8", "fp8")},
)
def product_of_eight_bits(x, w, x_scale, w_scale, bias, kind):
    from aiter.ops.triton.gemm.basic.gemm_a8w8 import gemm_a8w8

    x, w = in_eight_bits(x, kind), in_eight_bits(w, kind)
    return gemm_a8w8(x, w, x_scale, w_scale, bias)


@product_of_eight_bits.reference
def product_of_eight_bits_reference(x, w, x_scale, w_scale, bias):
    y = (x.to(x_scale.dtype) @ w.to(x_scale.dtype).T) * x_scale * w_scale
    return y if bias is None else y + bias


@op(
    **PRODUCT,
    inputs={
        "x": integers("M", "K", **SMALL),
        "w": integers("N", "K", **SMALL),
        "x_scale": tensor("M", 1, draw=Draw.POSITIVE, grad=False, dtype=DType.FP32),
        "w_scale": tensor("N", 1, draw=Draw.POSITIVE, grad=False, dtype=DType.FP32),
    },
    options={"output_dtype": ("bfloat16", "float16")},
)
def product_scaled_by_token(x, w, x_scale, w_scale, output_dtype):
    import torch
    from aiter.ops.triton.gemm.basic.gemm_a8w8_per_token_scale import gemm_a8w8_per_token_scale

    x, w = in_eight_bits(x, "fp8"), in_eight_bits(w, "fp8")
    return gemm_a8w8_per_token_scale(x, w, x_scale, w_scale, getattr(torch, output_dtype))


@product_scaled_by_token.reference
def product_scaled_by_token_reference(x, w, x_scale, w_scale):
    return (x.to(x_scale.dtype) @ w.to(x_scale.dtype).T) * x_scale * w_scale.T


BLOCKS = {
    **LIBRARY,
    "contiguous": "rows",
    "dims": {"M": tokens(200, grows=False), "N": width(400), "KB": Dim(low=1, high=6)},
    "options": {"output_dtype": ("bfloat16", "float16")},
    "refuses": NO_CONFIG,
}
OF_BLOCKS = tensor("(N+127)//128", "KB", draw=Draw.POSITIVE, grad=False, dtype=DType.FP32)


def by_blocks(w, scale):
    """Return weights from scales of blocks of 128 x 128."""
    N, K = w.shape
    return w.to(scale.dtype) * scale.repeat_interleave(128, 0)[:N].repeat_interleave(128, 1)[:, :K]


@op(
    **BLOCKS,
    inputs={
        "x": integers("M", "128*KB", **SMALL),
        "w": integers("N", "128*KB", **SMALL),
        "x_scale": tensor("M", "KB", draw=Draw.POSITIVE, grad=False, dtype=DType.FP32),
        "w_scale": OF_BLOCKS,
    },
)
def product_by_blocks(x, w, x_scale, w_scale, output_dtype):
    import torch
    from aiter.ops.triton.gemm.basic.gemm_a8w8_blockscale import gemm_a8w8_blockscale

    x, w = in_eight_bits(x, "fp8"), in_eight_bits(w, "fp8")
    return gemm_a8w8_blockscale(x, w, x_scale, w_scale, getattr(torch, output_dtype))


@product_by_blocks.reference
def product_by_blocks_reference(x, w, x_scale, w_scale):
    return (x.to(x_scale.dtype) * x_scale.repeat_interleave(128, 1)) @ by_blocks(w, w_scale).T


@op(
    **BLOCKS,
    inputs={"x": tensor("M", "128*KB", grad=False), "w": integers("N", "128*KB", **SMALL), "w_scale": OF_BLOCKS},
    dtypes=(DType.BF16, DType.FP16),
)
def product_with_weights_by_blocks(x, w, w_scale, output_dtype):
    import torch
    from aiter.ops.triton.gemm.basic.gemm_a16w8_blockscale import gemm_a16w8_blockscale

    return gemm_a16w8_blockscale(x, in_eight_bits(w, "fp8"), w_scale, getattr(torch, output_dtype))


@product_with_weights_by_blocks.reference
def product_with_weights_by_blocks_reference(x, w, w_scale):
    return x @ by_blocks(w, w_scale).T.to(x.dtype)


BATCH = {
    **LIBRARY,
    "contiguous": "rows",
    "dims": {"B": groups(1, 2, 3), "M": Dim(low=1, high=200), "N": width(200), "K": width(300)},
    "dtypes": (DType.BF16, DType.FP16),
    "apart": ("B",),
    "refuses": NO_CONFIG,
}


@op(
    **BATCH,
    inputs={
        "x": tensor("B", "M", "K", grad=False),
        "w": tensor("B", "N", "K", grad=False),
        "bias": tensor("B", 1, "N", grad=False, optional=True, contiguous=True),
    },
)
def batch_of_products(x, w, bias):
    from aiter.ops.triton.gemm.batched.batched_gemm_bf16 import batched_gemm_bf16

    return batched_gemm_bf16(x, w, bias, x.dtype)


@batch_of_products.reference
def batch_of_products_reference(x, w, bias):
    y = x @ w.mT
    return y if bias is None else y + bias


@op(
    **BATCH,
    inputs={
        "x": integers("B", "M", "K", **SMALL),
        "w": integers("B", "N", "K", **SMALL),
        "x_scale": tensor("B", "M", 1, draw=Draw.POSITIVE, grad=False, dtype=DType.FP32, contiguous=True),
        "w_scale": tensor("B", 1, "N", draw=Draw.POSITIVE, grad=False, dtype=DType.FP32, contiguous=True),
    },
    options={"kind": ("int8", "fp8"), "output_dtype": ("bfloat16", "float16")},
)
def batch_of_eight_bits(x, w, x_scale, w_scale, kind, output_dtype):
    import torch
    from aiter.ops.triton.gemm.batched.batched_gemm_a8w8 import batched_gemm_a8w8

    x, w = in_eight_bits(x, kind), in_eight_bits(w, kind)
    return batched_gemm_a8w8(x, w, x_scale, w_scale, dtype=getattr(torch, output_dtype))


@batch_of_eight_bits.reference
def batch_of_eight_bits_reference(x, w, x_scale, w_scale):
    return (x.to(x_scale.dtype) @ w.to(x_scale.dtype).mT) * x_scale * w_scale


@op(
    **LIBRARY,
    dims={"M": tokens(300, grows=False), "G": groups(1, 2, 4, 8), "N": width(200), "K": width(200)},
    inputs={
        "x": tensor("M", "K", grad=False),
        "w": tensor("G", "K", "N", grad=False),
        "lengths": sizes("G", "M"),
        "bias": tensor("G", "N", grad=False, optional=True),
    },
    dtypes=(DType.BF16, DType.FP16),
    contiguous=True,
    refuses=NO_CONFIG,
    where=lambda at: at["K"] != at["N"],  # aiter refuses square weights, which could be transposed
)
def grouped_product(x, w, lengths, bias):
    from aiter.ops.triton.gmm import gmm

    return gmm(x, w, lengths.int(), bias, preferred_element_type=x.dtype)


@grouped_product.reference
def grouped_product_reference(x, w, lengths, bias):
    import torch

    of_row = torch.arange(len(w)).repeat_interleave(lengths)
    masks = torch.nn.functional.one_hot(of_row, len(w)).to(x.dtype)
    y = torch.einsum("mg,mk,gkn->mn", masks, x, w)
    return y if bias is None else y + bias[of_row]


FOUR_BITS = {
    **LIBRARY,
    "contiguous": "rows",
    "dims": {"M": tokens(200, grows=False), "N": width(300), "KB": Dim(low=1, high=16)},
    "options": {"output_dtype": ("bfloat16", "float16")},
    "refuses": NO_CONFIG,
}
SCALE = {"grad": False, "dtype": DType.FP8_E8M0}


@op(
    **FOUR_BITS,
    inputs={
        "x": integers("M", "16*KB", high=256, dtype="uint8"),
        "w": integers("N", "16*KB", high=256, dtype="uint8"),
        "x_scale": tensor("M", "KB", **SCALE),
        "w_scale": tensor("N", "KB", **SCALE),
    },
)
def product_of_four_bits(x, w, x_scale, w_scale, output_dtype):
    import torch
    from aiter.ops.triton.gemm.basic.gemm_afp4wfp4 import gemm_afp4wfp4

    scales = (scale.view(torch.uint8) for scale in (x_scale, w_scale))
    return gemm_afp4wfp4(x, w, *scales, dtype=getattr(torch, output_dtype))


@product_of_four_bits.reference
def product_of_four_bits_reference(x, w, x_scale, w_scale):
    return dequantised(x, x_scale, packed="fp4", group=32) @ dequantised(w, w_scale, packed="fp4", group=32).T
