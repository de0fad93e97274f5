"""Planted: the width is not in the autotuner's key, so a narrow call leaves a tile in the cache that cuts wide rows."""

from harness.suite import DType, beside, op, tensor, tokens, width

ORACLE = "autotuner-key"
SMALLEST = {"T": 1, "D": 17}
CASES = 100

ROWS = {"x": tensor("T", "D", grad=False)}


@op(dims={"T": tokens(64, grows=False), "D": width(64)}, inputs=ROWS, dtypes=(DType.FP32,))
def shared_config(x):
    return beside(__file__, "kernels/shared_config.py").doubled(x.contiguous(), has_key=False)


@op(dims={"T": tokens(64, grows=False), "D": width(64)}, inputs=ROWS, dtypes=(DType.FP32,))
def shared_config_repaired(x):
    return beside(__file__, "kernels/shared_config.py").doubled(x.contiguous(), has_key=True)


@shared_config.reference
@shared_config_repaired.reference
def doubled(x):
    return x + x
