"""Products of matrices of eight-bit integers of torchao, with and without scales."""

from harness.suite import Dim, Draw, DType, integers, listed_configs, op, tensor, width

LIBRARY = {"requires": ("torchao",), "stubs": {"torchao": "torchao_stubs.py"}}
CONFIGS = 896
"""So many tiles, stages and warps torchao's tuner tries; it passes over those that need too much shared memory."""


def chosen(number, launch, arguments, configs):
    """Return what the tuner returns if this config is the fastest."""
    del launch, arguments
    return configs[number % len(configs)]


TUNED = {
    "host_configs": {"torchao.kernel.autotuner:get_best_config_fn": listed_configs(*range(CONFIGS), answer=chosen)},
    "refuses": ("NotImplementedError", "OutOfResources"),
    "waives": frozenset({"resources"}),
}
SIZES = {"M": Dim(low=1, high=300), "N": width(300), "K": width(300)}
FACTORS = {
    "a": integers("M", "K", low=-128, high=128, dtype="int8"),
    "b": integers("K", "N", low=-128, high=128, dtype="int8"),
}


@op(
    **LIBRARY,
    dims=SIZES,
    inputs={
        **FACTORS,
        "rows": tensor("M", grad=False, draw=Draw.POSITIVE),
        "columns": tensor("N", grad=False, draw=Draw.POSITIVE),
    },
    options={"one_for_all_columns": (False, True), "b_in_columns": (False, True)},
)
def scaled_product(a, b, rows, columns, one_for_all_columns, b_in_columns):
    from torchao.prototype.quantized_training.int8_mm import scaled_int8_mm_cuda

    scales = columns[:1] if one_for_all_columns else columns
    return scaled_int8_mm_cuda(a, laid_out(b, b_in_columns), rows.contiguous(), scales.contiguous())


@scaled_product.reference
def scaled_product_reference(a, b, rows, columns, one_for_all_columns):
    scales = columns[:1] if one_for_all_columns else columns
    return (a.to(rows.dtype) @ b.to(rows.dtype)) * rows[:, None] * scales


@op(**LIBRARY, **TUNED, dims=SIZES, inputs=FACTORS, options={"b_in_columns": (False, True)}, dtypes=(DType.FP32,))
def product(a, b, b_in_columns):
    from torchao.kernel.intmm_triton import int_matmul_cuda

    return int_matmul_cuda(a, laid_out(b, b_in_columns))


@product.reference
def product_reference(a, b):
    import torch

    return a.to(torch.int32) @ b.to(torch.int32)


@op(
    **LIBRARY,
    **TUNED,
    dims=SIZES,
    inputs={**FACTORS, "rows": tensor("M", 1, grad=False, draw=Draw.POSITIVE)},
    options={"b_in_columns": (False, True)},
)
def product_with_row_scales(a, b, rows, b_in_columns):
    from torchao.kernel.intmm_triton import int_scaled_matmul_cuda

    return int_scaled_matmul_cuda(a, laid_out(b, b_in_columns), rows.contiguous())


@product_with_row_scales.reference
def product_with_row_scales_reference(a, b, rows):
    return (a.to(rows.dtype) @ b.to(rows.dtype)) * rows


def laid_out(b, in_columns):
    return b.T.contiguous().T if in_columns else b
