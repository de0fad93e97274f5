"""Times one launch of a released kernel, on the virtual GPU or in Triton's interpreter.

`bench_launch.py ENGINE LIBRARY FOLDER`: a process for each engine, because Triton reads TRITON_INTERPRET when it is
imported.
"""

# ruff: noqa: PLC0415 - what is imported, and when, is what this program is about

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

ENGINE, LIBRARY, FOLDER = sys.argv[1:]
REPEATS = {"virtual": 20, "interpreter": 4}[ENGINE]
ROWS, COLUMNS, PROGRAMS, TILE = 450, 64, 188, 32

os.environ |= {"TORCHDYNAMO_DISABLE": "1", "FLA_DISABLE_TENSOR_CACHE": "1", "OMP_NUM_THREADS": "1"}
os.environ["TRITON_CACHE_DIR"] = str(Path(FOLDER, "triton-bench-launch"))
if ENGINE == "interpreter":
    os.environ["TRITON_INTERPRET"] = "1"


def main() -> None:
    """Print the least time of several launches, as JSON."""
    if ENGINE == "virtual":
        from harness.devices.catalogue import find
        from harness.virtual.engine import VirtualEngine

        VirtualEngine().wear(find("rtx-pro-6000"))
    sys.path.insert(0, LIBRARY)
    import torch

    torch.set_num_threads(1)
    from fla.modules.layernorm import layer_norm_bwd_kernel  # pyright: ignore[reportMissingImports] - LIBRARY has it

    launch = _without_tuning(layer_norm_bwd_kernel)[(PROGRAMS,)]
    arguments = _arguments(torch)
    launch(**arguments)  # compiles
    seconds: list[float] = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        launch(**arguments)
        seconds.append(time.perf_counter() - began)
    print(json.dumps({"seconds": min(seconds)}))


def _without_tuning(kernel: Any) -> Any:
    """The JIT function, or the interpreted one, below heuristics and autotuner."""
    while hasattr(kernel, "configs") or hasattr(kernel, "values"):
        kernel = kernel.fn
    return kernel


def _arguments(torch: Any) -> dict[str, Any]:
    x, dy = torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)
    return {
        "x": x,
        "w": torch.randn(COLUMNS),
        "b": None,
        "y": None,
        "dy": dy,
        "dx": torch.empty_like(x),
        "dw": torch.empty(PROGRAMS, COLUMNS),
        "db": None,
        "dres": None,
        "dres_in": None,
        "mean": x.mean(-1),
        "rstd": 1 / (x.var(-1, unbiased=False) + 1e-5).sqrt(),
        "T": ROWS,
        "G": 1,
        "D": COLUMNS,
        "BS": -(-ROWS // PROGRAMS),
        "BT": TILE,
        "BD": COLUMNS,
        "NB": 1,
        "GS": PROGRAMS,
        "IS_RMS_NORM": False,
        "HAS_DRESIDUAL": False,
        "STORE_DRESIDUAL": False,
        "HAS_WEIGHT": True,
        "HAS_BIAS": False,
        "RECOMPUTE_OUTPUT": False,
    }


if __name__ == "__main__":
    main()
