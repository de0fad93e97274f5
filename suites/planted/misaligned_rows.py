"""Planted: tensor descriptors of rows whose stride is no multiple of 16 bytes."""

from harness.suite import Dim, DType, beside, op, tensor, tokens

ORACLE = "descriptor-alignment"
SMALLEST = {"T": 1, "D": 2}

DIMS = {"T": tokens(64, grows=False), "D": Dim(low=2, high=40)}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def misaligned_rows(x):
    return beside(__file__, "kernels/misaligned_rows.py").double(x)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def misaligned_rows_repaired(x):
    return beside(__file__, "kernels/misaligned_rows.py").double_padded(x)


@misaligned_rows.reference
@misaligned_rows_repaired.reference
def double(x):
    return x + x
