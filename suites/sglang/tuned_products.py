"""Products of SGLang in eight bits, whose tiles host code picks from a table for each GPU and shape of weights.

Some tables for Hopper split K among programs, or swap the factors.
"""

from harness.suite import Dim, Draw, DType, config_tables, groups, op, tensor

LIBRARY = {"requires": ("sglang",), "stubs": {"sglang": "sglang_stubs.py"}, "contiguous": True}
SIMILAR = {"NVIDIA_A800-SXM4-80GB": "a100", "NVIDIA_H20": "h200", "NVIDIA_L20Y": "h100", "NVIDIA_L40": "l40s"}
"""GPUs with tables, by devices of the same architecture and shared memory."""
SCALES = {"grad": False, "dtype": DType.FP32, "draw": Draw.POSITIVE}
ROWS_OF_BLOCKS, BLOCKS_OF_ROW = "(N + BN - 1)//BN", "(K + BK - 1)//BK"
DIMS = {
    "BN": groups(128, 32),
    "BK": groups(128, 32),
    "M": Dim(low=1, high=300, varies=True),
    "N": Dim(low=1, high=600),
    "K": Dim(low=1, high=1200),
}
OPTIONS = {"output_dtype": ("bfloat16", "float16")}


def inputs(factor):
    return {
        "x": tensor("M", "K", grad=False, dtype=factor),
        "w": tensor("N", "K", grad=False, dtype=factor),
        "x_scales": tensor("M", BLOCKS_OF_ROW, **SCALES),
        "w_scales": tensor(ROWS_OF_BLOCKS, BLOCKS_OF_ROW, **SCALES),
    }


def tables(of):
    name = f"configs/N={{N}},K={{K}},device_name={{device}},dtype={of}_w8a8,block_shape=[{{BN}}, {{BK}}].json"
    return config_tables(name, nearest="M", devices=SIMILAR)


@op(
    **LIBRARY,
    dims=DIMS,
    inputs=inputs(DType.FP8_E4M3),
    options=OPTIONS,
    host_configs={"sglang.kernels.ops.gemm.fp8_kernel:get_w8a8_block_fp8_configs": tables("fp8")},
    where=lambda at: at["BN"] == at["BK"],
    dtypes=(DType.FP32,),
)
def scaled_product(x, w, x_scales, w_scales, output_dtype, BN, BK):
    import torch
    from sglang.kernels.ops.gemm.fp8_kernel import w8a8_block_fp8_matmul_triton

    return w8a8_block_fp8_matmul_triton(x, w, x_scales, w_scales, [BN, BK], getattr(torch, output_dtype))


@op(
    **LIBRARY,
    dims=DIMS,
    inputs=inputs(DType.INT8),
    options=OPTIONS,
    host_configs={"sglang.kernels.ops.gemm.int8_kernel:get_w8a8_block_int8_configs": tables("int8")},
    where=lambda at: at["BN"] == at["BK"],
    dtypes=(DType.FP32,),
)
def scaled_product_of_integers(x, w, x_scales, w_scales, output_dtype, BN, BK):
    import torch
    from sglang.kernels.ops.gemm.int8_kernel import w8a8_block_int8_matmul

    return w8a8_block_int8_matmul(x, w, x_scales, w_scales, [BN, BK], getattr(torch, output_dtype))


@scaled_product.reference
@scaled_product_of_integers.reference
def product_of_scaled(x, w, x_scales, w_scales, BN, BK):
    return spread(x, x_scales, 1, BK) @ spread(w, w_scales, BN, BK).T


def spread(numbers, scales, rows, columns):
    """Return the numbers times the scales of their blocks."""
    scales = scales.repeat_interleave(rows, 0).repeat_interleave(columns, 1)
    return numbers.to(scales.dtype) * scales[: len(numbers), : numbers.shape[1]]
