"""Ops whose kernels Triton 3.9 compiles otherwise than 3.6: two wrong results that it mends, and a removed API."""

from typing import Any

from harness.suite import Dim, DType, beside, integers, op, tensor, tokens

FP32 = (DType.FP32,)
SQUARE = {"N": Dim(low=16, high=16)}
ROWS = {"T": tokens(256, low=2, grows=False)}
X = {"x": tensor("T", grad=False)}


def kernels() -> Any:
    return beside(__file__, "upgraded_kernels.py")


@op(dims=SQUARE, inputs={"x": tensor("N", "N", grad=False)}, dtypes=FP32)
def softmax_of_rows(x: Any) -> Any:
    return kernels().softmax(x)


@softmax_of_rows.reference
def softmax_reference(x: Any) -> Any:
    return x.softmax(1)


@op(dims=ROWS, inputs={"x": integers("T", low=0, high=3)}, dtypes=FP32)
def is_set(x: Any) -> Any:
    return kernels().is_set(x * 128)


@is_set.reference
def is_set_reference(x: Any) -> Any:
    return x != 0


@op(dims=ROWS, inputs=X, dtypes=FP32)
def through_block_pointer(x: Any) -> Any:
    return kernels().through_block_pointer(x)


@op(dims=ROWS, inputs=X, dtypes=FP32)
def tuned_copy(x: Any) -> Any:
    return kernels().tuned_copy(x)


@through_block_pointer.reference
@tuned_copy.reference
def copy_reference(x: Any) -> Any:
    return x + 0
