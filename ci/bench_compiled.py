"""Measures cases of `torch.compile` on the virtual GPU: cases a second, and what the harness adds to the compilation.

    python ci/bench_compiled.py FOLDER

Two processes run cases of `suites/inductor/programs.py` at the same time.  A case of a new size compiles.  What Dynamo
counts as compilation, forward and backward, is torch's own time: it is spent without the harness, too.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROCESSES = 2
COMPILING = ("entire_frame_compile", "entire_backward_compile")
"""Dynamo's names for compilation of a frame, and of a backward pass that is compiled later."""
PROGRAMS = 8
"""Programs that each process compiles, after one that is not counted."""


def main() -> int:
    """Run the processes, and print sums."""
    folder = Path(sys.argv[1])
    children = [
        subprocess.Popen(
            [sys.executable, __file__, str(folder), str(number)],
            env={**os.environ, **_own_folders(folder / f"compiled-{number}"), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    reports = [json.loads(child.communicate()[0].splitlines()[-1]) for child in children]
    cold, warm, compiling, start = (sum(one[name] for one in reports) for name in ("cold", "warm", "compile", "start"))
    rate = PROGRAMS * PROCESSES * PROCESSES
    print(f"compiled cases, {PROCESSES} processes, each with {PROGRAMS} programs of new sizes:")
    print(f"  compiled anew      {rate / cold:.2f} cases a second; first case of a process {start / PROCESSES:.1f} s")
    print(f"  compiled before    {rate / warm:.1f} cases a second")
    print(
        f"  torch's own compilation {compiling / cold:.0%} of a case; the harness adds {cold / compiling - 1:.0%} to it"
    )
    return 0


def measure(number: int) -> dict[str, float]:
    """Return seconds of the cases of one process, and of torch's compilation in them."""
    from harness import catalogue  # noqa: PLC0415 - the parent loads neither torch nor Triton
    from harness.engines.virtual.engine import VirtualEngine  # noqa: PLC0415
    from harness.model.case import Case, DType  # noqa: PLC0415
    from harness.suite import load_suite  # noqa: PLC0415

    device = catalogue.find("b200")
    engine = VirtualEngine()
    engine.prepare()
    engine.emulate(device)
    (op,) = (one for one in load_suite(str(ROOT / "suites/inductor/programs.py")) if one.name == "static")
    seconds = {"cold": 0.0, "warm": 0.0, "compile": 0.0, "start": 0.0}
    for at, dims in enumerate(programs(op.dims, number)):
        case = Case(op=op.id, dims=dims, dtype=DType.FP32, device=device)
        spent().clear()
        began = time.perf_counter()
        engine.run(op, case)
        took = time.perf_counter() - began
        if not at:
            seconds["start"] = took
            continue
        seconds["cold"] += took
        seconds["compile"] += sum(spent().get(name, 0) for name in COMPILING) / 1e9
        began = time.perf_counter()
        engine.run(op, case)
        seconds["warm"] += time.perf_counter() - began
    return seconds


def programs(dims: Any, number: int) -> Iterator[dict[str, int]]:
    """Yield the dims of programs with three nodes, which differ in operations and sizes."""
    for at in range(PROGRAMS + 1):
        first = (number * PROGRAMS + at) * 2 % 34 + 1
        chosen = {"T": 40 + 3 * at, "D": 16 + 5 * at, "nodes": 3, "op1": first, "op2": first + 1, "op3": 1, "arg3": 2}
        yield {**dict.fromkeys(dims, 1), **chosen}


def spent() -> Any:
    """Return the nanoseconds that Dynamo has counted in this process, by the kind of work."""
    return import_module("torch._dynamo.utils").cumulative_time_spent_ns


def _own_folders(folder: Path) -> dict[str, str]:
    return {"TRITON_CACHE_DIR": str(folder / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(measure(int(sys.argv[2]))))
        sys.stdout.flush()
        os._exit(0)
    sys.exit(main())
