"""A suite in which bugs hide others: an option works with one value only, and an op never runs to its end."""

from typing import Any

from harness.suite import DType, op, tensor, tokens

MODES = tuple(f"mode{number}" for number in range(30))
WORKING = MODES[-1]

DIMS = {"T": tokens(256, grows=False)}
X = {"x": tensor("T", grad=False)}


def doubled(x: Any) -> Any:
    return x + x


@op(dims=DIMS, inputs=X, options={"mode": MODES}, dtypes=(DType.FP32,))
def hidden_behind_an_option(x: Any, mode: str) -> Any:
    from tests.search.avoidance_suite_kernels import doubled

    if mode != WORKING:
        raise TypeError(f"no mode {mode}")
    return doubled(x, forgotten=int(x.shape[0] % 32 == 5))


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def always_broken(x: Any) -> Any:
    raise TypeError(f"no kernel takes {x.shape}")


@op(dims=DIMS, inputs=X, dtypes=(DType.FP32,))
def sound(x: Any) -> Any:
    from tests.search.avoidance_suite_kernels import doubled

    return doubled(x, forgotten=0)


hidden_behind_an_option.reference(doubled)
always_broken.reference(doubled)
sound.reference(doubled)
