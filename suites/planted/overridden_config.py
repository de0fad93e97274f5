"""Planted: a heuristic below the autotuner replaces the tile size, so the chosen config never runs."""

from harness.suite import DType, beside, op, tensor, tokens

ORACLE = "autotuner-choice"
SMALLEST = {"T": 1}

X = {"x": tensor("T", grad=False)}


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def overridden_config(x):
    return beside(__file__, "kernels/overridden_config.py").doubled(x.contiguous(), overrides=True)


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,))
def overridden_config_repaired(x):
    return beside(__file__, "kernels/overridden_config.py").doubled(x.contiguous(), overrides=False)


@overridden_config.reference
@overridden_config_repaired.reference
def doubled(x):
    return x + x
