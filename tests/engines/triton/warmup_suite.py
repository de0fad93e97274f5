"""A suite of one op, whose host code reads the resources of its kernel before the launch."""

from typing import Any

from harness.suite import Dim, DType, op, tensor, tokens


@op(
    dims={"T": tokens(64, grows=False), "D": Dim(low=1, high=64)},
    inputs={"x": tensor("T", "D", grad=False)},
    dtypes=(DType.FP32,),
)
def softmax(x: Any) -> Any:
    from tests.engines.triton import warmup_suite_kernels

    return warmup_suite_kernels.softmax(x)


@softmax.reference
def definition(x: Any) -> Any:
    return x.softmax(-1)
