"""The ops that the contract runs: a right kernel, a wrong one, and host code that raises or refuses."""

from typing import Any

from harness.suite import DType, beside, op, tensor, tokens

KERNELS = "kernels_contract.py"
X: Any = {"x": tensor("T")}
T: Any = {"T": tokens(256, grows=False)}
REFUSED = "contract: no such rows"
RAISED = "contract: an error of the library"


@op(dims=T, inputs=X, dtypes=(DType.FP32,))
def doubled(x: Any) -> Any:
    return beside(__file__, KERNELS).multiply(x, 2.0, masks=True)


@op(dims=T, inputs=X, dtypes=(DType.FP32,))
def doubled_beyond_the_end(x: Any) -> Any:
    return beside(__file__, KERNELS).multiply(x, 2.0, masks=False)


@op(dims=T, inputs=X, dtypes=(DType.FP32,))
def tripled(x: Any) -> Any:
    return beside(__file__, KERNELS).multiply(x, 3.0, masks=True)


@op(dims=T, inputs=X, dtypes=(DType.FP32,))
def raises(x: Any) -> Any:
    del x
    raise RuntimeError(RAISED)


@op(dims=T, inputs=X, dtypes=(DType.FP32,), refuses=("ValueError",))
def refuses(x: Any) -> Any:
    del x
    raise ValueError(REFUSED)


@doubled.reference
@doubled_beyond_the_end.reference
@tripled.reference
@raises.reference
@refuses.reference
def double(x: Any) -> Any:
    return x + x
