"""Host code of `tuned_rows` picks configs from tables; and an op that declares a function that is never called."""

# pyright: reportMissingImports=false, reportUnknownVariableType=false
# The library's folder is on the path of workers alone.

from typing import Any

from harness.suite import DType, config_tables, listed_configs, op, tensor, tokens, width

TABLES = config_tables("configs/N={N},device_name={device}.json", nearest="T", devices={"NVIDIA_H20": "h200"})


@op(
    dims={"T": tokens(200, grows=False), "N": width(600)},
    inputs={"x": tensor("T", "N", grad=False)},
    host_configs={"tuned_rows.choice:get_configs": TABLES},
    dtypes=(DType.FP32,),
    contiguous=True,
)
def doubled(x: Any) -> Any:
    from tuned_rows.launch import doubled

    return doubled(x)


@op(
    dims={"T": tokens(200, grows=False), "N": width(600)},
    inputs={"x": tensor("T", "N", grad=False)},
    host_configs={"tuned_rows.choice:lru_cache": listed_configs({"BLOCK": 8}, by_device={"h200": ({"BLOCK": 4},)})},
    dtypes=(DType.FP32,),
    contiguous=True,
)
def never_asked(x: Any) -> Any:
    from tuned_rows.launch import doubled

    return doubled(x)


@doubled.reference
@never_asked.reference
def double(x: Any) -> Any:
    return x + x
