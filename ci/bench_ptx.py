"""Compare the PTX machine with native code of TTIR, launch by launch: `bench_ptx.py FOLDER [OPERATION...]`.

One process emulates an H200 and executes every launch on both, from the same bytes, after compilation.  The unit is CPU
time, which other work on the machine distorts least.  Compare figures of one run only.
"""

# ruff: noqa: PLC0415 - the environment must be set before torch and Triton are imported

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER, *NAMES = sys.argv[1:]
ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "suites" / "zoo" / "kernels"
REPEATS = 5
"""The calls of an operation, of which the least is printed."""
OPERATIONS = (
    "layer_norm T=512 D=256",
    "softmax T=512 D=700",
    "matmul M=N=256 K=320 float16",
    "attention T=512 H=2 K=64",
    "chunk_gla T=256 H=2 K=V=64, forward",
)

os.environ |= {"TORCHDYNAMO_DISABLE": "1", "FLA_DISABLE_TENSOR_CACHE": "1", "OMP_NUM_THREADS": "1"}
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "TRITON_CACHE_DIR": str(Path(FOLDER, "triton-bench-ptx"))}
os.environ |= {"HARNESS_EXECUTOR": "native", "HARNESS_BUILDS": str(Path(FOLDER, "builds-bench-ptx"))}

spent: dict[str, list[float]] = {}
"""By kernel, the CPU seconds of native code and of the PTX machine in one call."""


@dataclass(frozen=True, slots=True)
class BothMachines:
    """Executes a launch twice, and leaves the results of the PTX machine."""

    kernel: str
    ttir: Any
    ptx: Any
    contents: tuple[Any, ...]
    """The bytes of the launch's buffers."""

    def run(self) -> Any:
        times = spent.setdefault(self.kernel, [0.0, 0.0])
        outcome = None
        before = [content.copy() for content in self.contents]
        for number, machine in enumerate((self.ttir, self.ptx)):
            for content, saved in zip(self.contents, before, strict=True):
                if content.flags.writeable:
                    content[:] = saved
            began = time.process_time()
            outcome = machine.run()
            times[number] += time.process_time() - began
        return outcome


def main() -> None:
    """Measure and print."""
    emulate_device()
    import torch

    torch.set_num_threads(1)
    print("\nLaunches on an emulated H200, CPU milliseconds of one call, native code of TTIR and the PTX machine:")
    print(f"{'':58} {'TTIR':>8} {'PTX':>10} {'ratio':>8}")
    known = operations(torch)
    for name in NAMES or OPERATIONS:
        known[name]()  # compiles
        rounds = [one_call(known[name]) for _ in range(REPEATS)]
        print(name)
        for kernel in rounds[0]:
            line(f"  {kernel}", [min(times[kernel][machine] for times in rounds) for machine in (0, 1)])
        line("  all launches", [min(sum(each[m] for each in times.values()) for times in rounds) for m in (0, 1)])
    sys.stdout.flush()
    os._exit(0)  # the engine leaves a thread with modes of torch


def one_call(operation: Callable[[], Any]) -> dict[str, list[float]]:
    """Return by kernel the seconds of both machines."""
    spent.clear()
    operation()
    return {kernel: list(times) for kernel, times in spent.items()}


def line(name: str, seconds: list[float]) -> None:
    ttir, ptx = seconds
    print(f"{name:58} {1e3 * ttir:8.2f} {1e3 * ptx:10.2f} {ptx / ttir:8.1f}", flush=True)


def emulate_device() -> None:
    """Emulate a GPU whose launches both machines execute."""
    from harness.catalogue import find
    from harness.engines.ptx.engine import PtxEngine, PtxLaunches
    from harness.engines.virtual.executors import choose_executor
    from harness.engines.virtual.memory.events import EventCollector

    class Launches(PtxLaunches):
        def _executor(self, compiled: Any, request: Any, resident: Any, events: Any) -> Any:
            buffers = [argument.buffer for argument in resident.launch.binding.arguments]
            return BothMachines(
                kernel=resident.launch.kernel,
                ttir=choose_executor(resident, EventCollector(), self.native),
                ptx=super()._executor(compiled, request, resident, events),
                contents=tuple(buffer.bytes for buffer in buffers if buffer is not None),
            )

    class Engine(PtxEngine):
        make_launches = Launches

    Engine().emulate(find("h200"))


def operations(torch: Any) -> dict[str, Callable[[], Any]]:
    """Return calls, forward only."""
    from harness import libraries
    from harness.engines.torch.cpu_tensors import CpuTensors
    from harness.settings import Settings
    from harness.suite import beside

    def zoo(file: str, call: Callable[..., Any], *inputs: Any) -> Callable[[], Any]:
        def run() -> Any:
            with CpuTensors():
                return call(beside(str(KERNELS / "unused.py"), f"{file}.py"), *inputs)

        return run

    def gla() -> Any:
        (library,) = libraries.resolve(["fla-core==0.6.0"], cache=Settings.from_environment(os.environ).cache)
        if str(library) not in sys.path:
            sys.path.insert(0, str(library))
        from fla.ops.gla import chunk_gla  # pyright: ignore[reportMissingImports] - the library has it

        q, k, v, g = (drawn(1, 256, 2, 64) for _ in range(4))
        with CpuTensors(), torch.no_grad():
            return chunk_gla(q, k, v, torch.nn.functional.logsigmoid(g))

    def drawn(*shape: int) -> Any:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(0))

    rows = drawn(512, 256)
    left, right = drawn(256, 320).half(), drawn(320, 256).half()
    heads = [drawn(1, 512, 2, 64).half() for _ in range(3)]
    calls = (
        zoo("norms", lambda kernels, *inputs: kernels.layer_norm(*inputs, 1e-5), rows, drawn(256), drawn(256)),
        zoo("softmax", lambda kernels, x: kernels.softmax(x), drawn(512, 700)),
        zoo("products", lambda kernels, *inputs: kernels.matmul(*inputs), left, right),
        zoo("attention", lambda kernels, *inputs: kernels.attention(*inputs, causal=False), *heads),
        gla,
    )
    return dict(zip(OPERATIONS, calls, strict=True))


if __name__ == "__main__":
    main()
