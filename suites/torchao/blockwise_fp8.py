"""Blockwise training in eight bits with torchao: quantisation of activations and weights, and products of them.

A block of 128 numbers, or of 128 by 128, is scaled so that its largest magnitude becomes 448.  Results are compared as
the numbers that the rounded ones stand for, with the scales that turn them back.
"""

from harness.suite import Dim, Draw, DType, op, tensor

LIBRARY = {"requires": ("torchao",), "stubs": {"torchao": "torchao_stubs.py"}}
BLOCK = 128
LARGEST = 448.0
LEAST = 1e-12
"""The least magnitude that counts as a block's largest."""
JUMPS = frozenset({"precision"})
"""A number between two steps of eight bits goes to either."""
ROWS = Dim(low=1, high=400)
BLOCKS = Dim(low=1, high=3)
PRODUCT = {
    "dims": {"M": ROWS, "NB": BLOCKS, "KB": BLOCKS},
    "options": {"output_dtype": ("float32", "bfloat16")},
    "dtypes": (DType.FP32,),
}
FACTORS = {
    "a": tensor("M", f"{BLOCK}*KB", grad=False, dtype=DType.FP8_E4M3),
    "b": tensor(f"{BLOCK}*NB", f"{BLOCK}*KB", grad=False, dtype=DType.FP8_E4M3),
    "scales_a": tensor("M", "KB", grad=False, draw=Draw.POSITIVE),
}


@op(**LIBRARY, dims={"M": ROWS, "KB": BLOCKS}, inputs={"x": tensor("M", f"{BLOCK}*KB", grad=False)}, waives=JUMPS)
def activations_by_row(x):
    from torchao.prototype.blockwise_fp8_training.kernels import triton_fp8_blockwise_act_quant_lhs

    y, scales = triton_fp8_blockwise_act_quant_lhs(x.contiguous())
    return restored(y, scales, 1, BLOCK), scales


@activations_by_row.reference
def activations_by_row_reference(x):
    return quantised(x, 1, BLOCK)


@op(**LIBRARY, dims={"M": ROWS, "KB": BLOCKS}, inputs={"x": tensor("M", f"{BLOCK}*KB", grad=False)}, waives=JUMPS)
def activations_by_column(x):
    from torchao.prototype.blockwise_fp8_training.kernels import triton_fp8_blockwise_act_quant_rhs

    y, scales = triton_fp8_blockwise_act_quant_rhs(x.contiguous())
    return restored(y, scales, BLOCK, 1), scales


@activations_by_column.reference
def activations_by_column_reference(x):
    return quantised(x, BLOCK, 1)


@op(**LIBRARY, dims={"MB": BLOCKS, "K": ROWS}, inputs={"x": tensor(f"{BLOCK}*MB", "K", grad=False)}, waives=JUMPS)
def transposed_activations(x):
    from torchao.prototype.blockwise_fp8_training.kernels import triton_fp8_blockwise_act_quant_transposed_lhs

    y, scales = triton_fp8_blockwise_act_quant_transposed_lhs(x.contiguous())
    return restored(y, scales, 1, BLOCK), scales


@transposed_activations.reference
def transposed_activations_reference(x):
    return quantised(x.T, 1, BLOCK)


@op(
    **LIBRARY,
    dims={"MB": BLOCKS, "NB": BLOCKS},
    inputs={"x": tensor(f"{BLOCK}*MB", f"{BLOCK}*NB", grad=False)},
    options={"transposes": (False, True)},
    waives=JUMPS,
)
def weights(x, transposes):
    from torchao.prototype.blockwise_fp8_training.kernels import (
        triton_fp8_blockwise_weight_quant_rhs,
        triton_fp8_blockwise_weight_quant_transposed_rhs,
    )

    quantise = triton_fp8_blockwise_weight_quant_transposed_rhs if transposes else triton_fp8_blockwise_weight_quant_rhs
    y, scales = quantise(x.contiguous())
    return restored(y, scales, BLOCK, BLOCK), scales


@weights.reference
def weights_reference(x, transposes):
    return quantised(x.T if transposes else x, BLOCK, BLOCK)


@op(
    **LIBRARY,
    **PRODUCT,
    inputs={**FACTORS, "scales_b": tensor("NB", "KB", grad=False, draw=Draw.POSITIVE)},
)
def product_with_weights(a, b, scales_a, scales_b, output_dtype):
    from torchao.prototype.blockwise_fp8_training.kernels import triton_fp8_gemm_1x128_128x128

    scales = in_columns(scales_a), scales_b.contiguous().T
    return triton_fp8_gemm_1x128_128x128(a.contiguous(), b.contiguous().T, *scales, BLOCK, type_named(output_dtype))


@product_with_weights.reference
def product_with_weights_reference(a, b, scales_a, scales_b):
    return restored(a, scales_a, 1, BLOCK) @ restored(b, scales_b, BLOCK, BLOCK).T


@op(
    **LIBRARY,
    **PRODUCT,
    inputs={**FACTORS, "scales_b": tensor("KB", f"{BLOCK}*NB", grad=False, draw=Draw.POSITIVE)},
)
def product_of_activations(a, b, scales_a, scales_b, output_dtype):
    from torchao.prototype.blockwise_fp8_training.kernels import triton_fp8_gemm_1x128_128x1

    scales = in_columns(scales_a), scales_b.contiguous()
    return triton_fp8_gemm_1x128_128x1(a.contiguous(), b.contiguous().T, *scales, BLOCK, type_named(output_dtype))


@product_of_activations.reference
def product_of_activations_reference(a, b, scales_a, scales_b):
    return restored(a, scales_a, 1, BLOCK) @ restored(b, scales_b.T, 1, BLOCK).T


def quantised(x, rows, columns):
    """Return each number as the rounded one stands for it, and what a block's rounded numbers are multiplied by."""
    import torch

    padded = torch.nn.functional.pad(x, (0, -x.shape[1] % columns, 0, -x.shape[0] % rows))
    blocks = padded.unflatten(1, (-1, columns)).unflatten(0, (-1, rows))
    scales = blocks.abs().amax((1, 3)).clamp(min=LEAST) / LARGEST
    steps = (x / spread(scales, x, rows, columns)).clamp(-LARGEST, LARGEST)
    return restored(steps.to(torch.float8_e4m3fn).to(x.dtype), scales, rows, columns), scales


def restored(y, scales, rows, columns):
    """Return rounded numbers times the scales of their blocks."""
    return y.to(scales.dtype) * spread(scales, y, rows, columns)


def spread(scales, like, rows, columns):
    """Return the scale of each number."""
    wide = scales.repeat_interleave(rows, 0).repeat_interleave(columns, 1)
    return wide[: like.shape[0], : like.shape[1]]


def in_columns(x):
    return x.T.contiguous().T


def type_named(name):
    import torch

    return getattr(torch, name)
