"""Ops whose kernels use what a planted Triton changes: a function that is wrong, one that rounds, one that is gone."""

from typing import Any

from harness.suite import DType, beside, op, tensor, tokens

ROWS = {"T": tokens(64, low=2, grows=False)}
X = {"x": tensor("T", grad=False)}
FP32 = (DType.FP32,)


def kernels() -> Any:
    return beside(__file__, "planted_kernels.py")


@op(dims=ROWS, inputs=X, dtypes=FP32)
def doubled(x: Any) -> Any:
    return kernels().run(kernels().doubled_kernel, x)


@op(dims=ROWS, inputs=X, dtypes=FP32)
def rounded(x: Any) -> Any:
    return kernels().run(kernels().rounded_kernel, x)


@op(dims=ROWS, inputs=X, dtypes=FP32)
def removed(x: Any) -> Any:
    return kernels().run(kernels().removed_kernel, x)


@op(dims=ROWS, inputs=X, dtypes=FP32)
def unchanged(x: Any) -> Any:
    return kernels().run(kernels().unchanged_kernel, x)


@doubled.reference
@removed.reference
@unchanged.reference
def double(x: Any) -> Any:
    return x + x


@rounded.reference
def divided(x: Any) -> Any:
    return x / 3
