"""Zoo: float64, floating-point numbers of eight bits, powers of two as scales, and integers of eight and 32 bits."""

from harness.suite import DType, beside, op, tensor, tokens, width

KERNELS = "kernels/element_types.py"
EIGHT_BITS = (DType.FP8_E4M3, DType.FP8_E5M2)
ROWS = {"T": tokens(128, grows=False), "D": width(256)}
MATRICES = {
    "dims": {"M": tokens(128, grows=False), "N": width(64), "K": width(128)},
    "inputs": {"a": tensor("M", "K", grad=False), "b": tensor("K", "N", grad=False)},
}


@op(dims=ROWS, inputs={"x": tensor("T", "D", grad=False)}, contiguous="rows", dtypes=(DType.FP64,))
def log_sum_exp_in_float64(x):
    return beside(__file__, KERNELS).log_sum_exp(x)


@log_sum_exp_in_float64.reference
def log_sum_exp_reference(x):
    return x.logsumexp(-1)


@op(**MATRICES, contiguous="rows", dtypes=EIGHT_BITS)
def matmul_of_eight_bits(a, b):
    return beside(__file__, KERNELS).matmul(a, b)


@op(**MATRICES, contiguous="rows", dtypes=(DType.FP64,))
def matmul_in_float64(a, b):
    return beside(__file__, KERNELS).matmul(a, b)


@matmul_of_eight_bits.reference
@matmul_in_float64.reference
def matmul_reference(a, b):
    return a @ b


@op(**MATRICES, contiguous="rows", dtypes=(DType.INT8,))
def matmul_of_integers(a, b):
    return beside(__file__, KERNELS).matmul(a, b)


@matmul_of_integers.reference
def matmul_of_integers_reference(a, b):
    import torch

    return a.to(torch.int32) @ b.to(torch.int32)


@op(dims=ROWS, inputs={"x": tensor("T", "D", grad=False)}, contiguous="rows", dtypes=EIGHT_BITS)
def affine_in_eight_bits(x):
    return beside(__file__, KERNELS).affine(x)


@affine_in_eight_bits.reference
def affine_reference(x):
    return 1.5 * x + 0.25


@op(
    dims={"T": tokens(64, grows=False), "G": width(16)},
    inputs={
        "x": tensor("T", "32*G", grad=False),
        "scale": tensor("T", "G", grad=False, dtype=DType.FP8_E8M0),
    },
    contiguous="rows",
    dtypes=EIGHT_BITS,
)
def scaled_groups(x, scale):
    return beside(__file__, KERNELS).scaled_groups(x, scale)


@scaled_groups.reference
def scaled_groups_reference(x, scale):
    return x * scale.repeat_interleave(32, -1)


@op(dims=ROWS, inputs={"x": tensor("T", "D", grad=False)}, contiguous="rows", dtypes=(DType.INT32, DType.INT8))
def row_totals_of_integers(x):
    return beside(__file__, KERNELS).totals(x)


@row_totals_of_integers.reference
def row_totals_reference(x):
    import torch

    return x.to(torch.int64).sum(-1).to(torch.int32)
