"""Planted: without a bias every benchmark raises, which the library's own autotuner swallows; it takes the first."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "autotuner-choice"
SMALLEST = {"T": 1}

ROWS = {"x": tensor("T", grad=False), "bias": tensor("T", grad=False, optional=True)}


@op(dims={"T": tokens(256, grows=False)}, inputs=ROWS, dtypes=(DType.FP32,))
def every_config_failed(x, bias):
    return shifted(x, bias, knows_none=False)


@op(dims={"T": tokens(256, grows=False)}, inputs=ROWS, dtypes=(DType.FP32,))
def every_config_failed_repaired(x, bias):
    return shifted(x, bias, knows_none=True)


def shifted(x, bias, **settings):
    kernels = beside(__file__, "kernels/swallowing_autotuner.py")
    return kernels.shifted(x.contiguous(), None if bias is None else bias.contiguous(), **settings)


@every_config_failed.reference
@every_config_failed_repaired.reference
def sum_of_both(x, bias):
    return x if bias is None else x + bias
