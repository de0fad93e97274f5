"""Measure the launches of a released library, on the virtual GPU or in Triton's interpreter.

`bench_launch.py ENGINE LIBRARY FOLDER OPERATION...`: ENGINE is `numpy`, `native` or `interpreter`.  Each needs its own
process, because Triton reads TRITON_INTERPRET when it is imported.  The program prints JSON: by operation and kernel,
the least CPU seconds of the launches in one call.  It leaves the results in FOLDER, for comparison.
"""

# ruff: noqa: PLC0415 - the environment must be set before torch and Triton are imported

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

ENGINE, LIBRARY, FOLDER, *NAMES = sys.argv[1:]
REPEATS = {"numpy": 5, "native": 9, "interpreter": 1}[ENGINE]

os.environ |= {"TORCHDYNAMO_DISABLE": "1", "FLA_DISABLE_TENSOR_CACHE": "1", "OMP_NUM_THREADS": "1"}
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "TRITON_CACHE_DIR": str(Path(FOLDER, "triton-bench-launch"))}
if ENGINE == "interpreter":
    os.environ["TRITON_INTERPRET"] = "1"
else:
    os.environ |= {"HARNESS_EXECUTOR": ENGINE, "HARNESS_BUILDS": str(Path(FOLDER, "builds-bench-launch"))}

spent: dict[str, float] = defaultdict(float)
"""CPU seconds by kernel."""
running: list[Any] = []
"""The current launch, if there is one."""


def main() -> None:
    """Run every operation several times."""
    emulate_device()
    sys.path.insert(0, LIBRARY)
    import torch

    torch.set_num_threads(1)
    seconds: dict[str, dict[str, float]] = {}
    known = operations(torch)
    if ENGINE == "interpreter":
        make_range_yield_tensors()
    for name in NAMES:
        operation = known[name]
        rounds: list[dict[str, float]] = []
        results: list[Any] = []
        if ENGINE != "interpreter":
            operation()  # compiles
        for _ in range(REPEATS):
            spent.clear()
            results = operation()
            rounds.append(dict(spent))
        seconds[name] = {kernel: min(one[kernel] for one in rounds) for kernel in rounds[0]}
        torch.save([result.detach().clone() for result in results], Path(FOLDER, f"{ENGINE}-{name}.pt"))
    print(json.dumps(seconds), flush=True)
    os._exit(0)  # the engine leaves a thread with modes of torch, which the interpreter cannot end


def emulate_device() -> None:
    """Emulate a GPU, and time every launch.

    The interpreter launches by itself, but libraries ask for the device.
    """
    from harness.catalogue import find
    from harness.engines.virtual.engine import VirtualEngine

    VirtualEngine().emulate(find("rtx-pro-6000"))
    if ENGINE == "interpreter":
        from triton.runtime.interpreter import GridExecutor

        GridExecutor.__call__ = timed(GridExecutor.__call__)
    else:
        from triton.runtime.jit import JITFunction

        JITFunction.run = timed(JITFunction.run)


def make_range_yield_tensors() -> None:
    """Make `range` in the interpreter's kernels yield tensors, as in compiled Triton.

    Its own integers have no `.to`, so `(i * BT).to(tl.int64)` raises and chunked kernels do not run.
    """
    from triton.runtime.interpreter import interpreter_semantic

    def counted(*bounds: Any) -> Any:
        numbers = range(*(int(bound) for bound in bounds))
        return map(interpreter_semantic.to_tensor, numbers) if running else numbers

    for name, module in list(sys.modules.items()):
        if name.startswith("fla."):
            module.__dict__["range"] = counted


def timed(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same call, which adds its CPU time to `spent`."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        began = time.process_time()
        running.append(self)
        try:
            return call(self, *args, **kwargs)
        finally:
            running.pop()
            spent[self.fn.__name__] += time.process_time() - began

    return run


def operations(torch: Any) -> dict[str, Callable[[], list[Any]]]:
    """Return calls of the library, forward and backward, in float32.  Each returns its results."""
    from fla.modules import fused_cross_entropy, l2norm, layernorm, rotary  # pyright: ignore[reportMissingImports] - LIBRARY has them
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule  # pyright: ignore[reportMissingImports]
    from fla.ops.gla import chunk_gla  # pyright: ignore[reportMissingImports]

    def norm(rows: int, width: int) -> Callable[[], list[Any]]:
        inputs = drawn(torch, (rows, width), (width,), (width,))
        return lambda: both_ways(torch, lambda x, w, b: layernorm.layer_norm(x, w, b, eps=1e-5), inputs)

    def rms() -> list[Any]:
        return both_ways(torch, lambda x, w: layernorm.rms_norm(x, w, None, eps=1e-5), drawn(torch, (450, 64), (64,)))

    def unit() -> list[Any]:
        return both_ways(torch, l2norm.l2norm, drawn(torch, (1, 256, 2, 64)))

    def losses() -> list[Any]:
        targets = torch.randint(0, 1000, (64,), generator=torch.Generator().manual_seed(1))
        call = fused_cross_entropy.cross_entropy_loss
        return both_ways(torch, lambda logits: call(logits, targets)[0], drawn(torch, (64, 1000)))

    def turned() -> list[Any]:
        cos, sin = drawn(torch, (128, 32), (128, 32))
        return both_ways(torch, lambda x: rotary.rotary_embedding(x, cos, sin), drawn(torch, (1, 128, 2, 64)))

    heads = (1, 128, 2, 64)

    def gla() -> list[Any]:
        q, k, v, g = drawn(torch, heads, heads, heads, heads)
        g = torch.nn.functional.logsigmoid(g)
        return both_ways(torch, lambda *given: chunk_gla(*given)[0], [q, k, v, g])

    def delta() -> list[Any]:
        q, k, v, g, beta = drawn(torch, heads, heads, heads, heads[:3], heads[:3])
        k, g = torch.nn.functional.normalize(k, dim=-1), torch.nn.functional.logsigmoid(g)
        return both_ways(torch, lambda *given: chunk_gated_delta_rule(*given)[0], [q, k, v, g, beta.sigmoid()])

    return {
        "layer_norm T=450 D=64": norm(450, 64),
        "rms_norm T=450 D=64": rms,
        "l2norm": unit,
        "cross_entropy T=64 V=1000": losses,
        "rotary": turned,
        "chunk_gla T=128 H=2 K=V=64": gla,
        "chunk_gated_delta_rule T=128 H=2 K=V=64": delta,
    }


def drawn(torch: Any, *shapes: tuple[int, ...]) -> list[Any]:
    """Return random inputs, the same in every process."""
    source = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=source) for shape in shapes]


def both_ways(torch: Any, call: Callable[..., Any], inputs: list[Any]) -> list[Any]:
    """Return the result and the gradients of the inputs.  The cotangent is the same in every process."""
    from harness.engines.torch.cpu_tensors import CpuTensors

    given = [value.detach().clone().requires_grad_() for value in inputs]
    with CpuTensors():
        result = call(*given)
        result.backward(torch.randn(result.shape, generator=torch.Generator().manual_seed(2)))
    return [result, *(value.grad for value in given if value.grad is not None)]


if __name__ == "__main__":
    main()
