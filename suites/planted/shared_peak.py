"""Planted: rows are divided by the peak of a whole tile of rows, not each by its own."""

from harness.suite import DType, beside, op, tensor, tokens, width

ORACLE = "row-invariance"
CASES = 48
SMALLEST = {"T": 2, "D": 1}

DIMS = {"T": tokens(64, grows=False), "D": width(64)}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,), independent=("T",))
def shared_peak(x):
    return beside(__file__, "kernels/shared_peak.py").over_peak(x, rows=4)


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,), independent=("T",))
def shared_peak_repaired(x):
    return beside(__file__, "kernels/shared_peak.py").over_peak(x, rows=1)


@shared_peak.reference
@shared_peak_repaired.reference
def over_peak(x):
    return x / x.abs().amax(-1, keepdim=True).clamp(min=1e-20)
