"""Planted: the total of a gradient is set to zero unless a CUDA graph is captured, so each replay adds to the last."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "graph-replay"
SMALLEST = {"T": 1}
CASES = 100

DIMS = {"T": tokens(512, grows=False)}
X = {"x": tensor("T", grad=False, contiguous=True), "bias": tensor(1, contiguous=True)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,), graphs=True)
def unreset_gradient(x, bias):
    return beside(__file__, "kernels/biased_rows.py").add_bias(x, bias, on_device=False)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,), graphs=True)
def unreset_gradient_repaired(x, bias):
    return beside(__file__, "kernels/biased_rows.py").add_bias(x, bias, on_device=True)


@unreset_gradient.reference
@unreset_gradient_repaired.reference
def biased(x, bias):
    return x + bias
