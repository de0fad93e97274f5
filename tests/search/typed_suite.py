"""One wrong kernel for each element type that cases may have: each is wrong where only that type shows it."""

from typing import Any

from harness.suite import DType, beside, op, tensor, tokens, width

KERNELS = "typed_suite_kernels.py"
ROWS = {"T": tokens(64, grows=False), "D": width(128)}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=ROWS, inputs=X, dtypes=(DType.FP64,))
def summed_in_float32(x: Any) -> Any:
    return beside(__file__, KERNELS).summed_in_float32(x)


@summed_in_float32.reference
def total(x: Any) -> Any:
    return x.sum(-1)


@op(dims=ROWS, inputs=X, dtypes=(DType.FP8_E4M3,))
def truncated_e4m3(x: Any) -> Any:
    return beside(__file__, KERNELS).truncated(x)


@op(dims=ROWS, inputs=X, dtypes=(DType.FP8_E5M2,))
def truncated_e5m2(x: Any) -> Any:
    return beside(__file__, KERNELS).truncated(x)


@truncated_e4m3.reference
@truncated_e5m2.reference
def scaled(x: Any) -> Any:
    return x * 1.1875


@op(
    dims=ROWS,
    inputs={**X, "scale": tensor("T", grad=False, dtype=DType.FP8_E8M0)},
    dtypes=(DType.FP32,),
)
def biased_by_126(x: Any, scale: Any) -> Any:
    return beside(__file__, KERNELS).biased_by_126(x, scale)


@biased_by_126.reference
def scaled_rows(x: Any, scale: Any) -> Any:
    return x * scale[:, None]


@op(dims=ROWS, inputs=X, dtypes=(DType.INT8,))
def added_in_eight_bits(x: Any) -> Any:
    return beside(__file__, KERNELS).added_in_eight_bits(x)


@op(dims=ROWS, inputs=X, dtypes=(DType.INT32,))
def added_in_floats(x: Any) -> Any:
    return beside(__file__, KERNELS).added_in_floats(x)


@added_in_eight_bits.reference
@added_in_floats.reference
def threefold(x: Any) -> Any:
    import torch

    return (x.to(torch.int64) * 3).to(torch.int32)
