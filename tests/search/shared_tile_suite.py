"""The depth is not in the autotuner's key, so a shallow call leaves a tile in the cache that is too large."""

from typing import Any

from harness.suite import DType, beside, op, tensor, tokens, width

MATRICES = {"x": tensor("T", "D", grad=False), "w": tensor("D", "D", grad=False)}


@op(dims={"T": tokens(64, grows=False), "D": width(128)}, inputs=MATRICES, dtypes=(DType.FP32,))
def shared_tile(x: Any, w: Any) -> Any:
    return beside(__file__, "shared_tile_suite_kernels.py").product(x.contiguous(), w.contiguous(), has_key=False)


@op(dims={"T": tokens(64, grows=False), "D": width(128)}, inputs=MATRICES, dtypes=(DType.FP32,))
def shared_tile_repaired(x: Any, w: Any) -> Any:
    return beside(__file__, "shared_tile_suite_kernels.py").product(x.contiguous(), w.contiguous(), has_key=True)


@shared_tile.reference
@shared_tile_repaired.reference
def product(x: Any, w: Any) -> Any:
    return x @ w
