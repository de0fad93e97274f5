"""Measure layer norm, forward and backward, on many rows: `bench_large.py EXECUTOR LIBRARY FOLDER ROWS CORES`.

It prints JSON: the least wall and CPU seconds of calls after compilation, and the largest resident set in bytes.
"""

# ruff: noqa: PLC0415 - the environment must be set before torch and Triton are imported

import json
import os
import resource
import sys
import time
from pathlib import Path

EXECUTOR, LIBRARY, FOLDER, ROWS, CORES = sys.argv[1:]
WIDTH, CALLS = 256, 5

os.environ |= {"TORCHDYNAMO_DISABLE": "1", "FLA_DISABLE_TENSOR_CACHE": "1", "OMP_NUM_THREADS": "1"}
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "TRITON_CACHE_DIR": str(Path(FOLDER, "triton-bench-large"))}
os.environ |= {"HARNESS_EXECUTOR": EXECUTOR, "HARNESS_BUILDS": str(Path(FOLDER, "builds-bench-large"))}


def main() -> None:
    """Compile, then measure."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(CORES)])
    from harness.catalogue import find
    from harness.engines.torch.cpu_tensors import CpuTensors
    from harness.engines.virtual.engine import VirtualEngine

    VirtualEngine().emulate(find("rtx-pro-6000"))
    sys.path.insert(0, LIBRARY)
    import torch
    from fla.modules import layernorm  # pyright: ignore[reportMissingImports] - LIBRARY has it

    torch.set_num_threads(1)
    x, weight, bias = (torch.randn(*shape).requires_grad_() for shape in ((int(ROWS), WIDTH), (WIDTH,), (WIDTH,)))
    cotangent = torch.randn(int(ROWS), WIDTH)
    times: list[tuple[float, float]] = []
    for _ in range(CALLS):  # the first call compiles
        wall, cpu = time.perf_counter(), time.process_time()
        with CpuTensors():
            layernorm.layer_norm(x, weight, bias, eps=1e-5).backward(cotangent)
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    wall, cpu = min(times)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"wall_s": wall, "cpu_s": cpu, "peak_bytes": peak}), flush=True)
    os._exit(0)  # the engine leaves a thread with modes of torch, which the interpreter cannot end


if __name__ == "__main__":
    main()
