"""Compare three executors on the launches of a released library, kernel by kernel: `bench_executors.py FOLDER`.

On the virtual GPU all checks are on; Triton's interpreter has none.  The unit is CPU time, which other work on the
machine distorts least.  Compare figures of one run only.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from math import exp, log
from pathlib import Path

from harness import libraries
from harness.settings import Settings
from harness.wording import counted

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = "fla-core==0.6.0"
OPERATIONS = (
    "layer_norm T=450 D=64",
    "rms_norm T=450 D=64",
    "l2norm",
    "cross_entropy T=64 V=1000",
    "rotary",
    "chunk_gla T=128 H=2 K=V=64",
    "chunk_gated_delta_rule T=128 H=2 K=V=64",
)
ENGINES = ("numpy", "native", "interpreter")
LARGE = ((24_000, "native", 1), (24_000, "numpy", 1), (200_000, "native", 1), (200_000, "native", 2))
"""Rows, executor and cores."""
SAME = 4e-3
"""The largest difference to the interpreter's results, in units of the largest element.

The virtual GPU rounds the factors of a float32 product to tf32, as a GPU does.  The interpreter does not.
"""

Times = dict[str, dict[str, float]]


def main() -> None:
    """Measure and print."""
    folder = sys.argv[1]
    (library,) = libraries.resolve([LIBRARY], cache=Settings.from_environment(os.environ).cache)
    print(f"\nLaunches of {LIBRARY}, float32, 188 SMs, CPU milliseconds of one call, forward and backward:")
    print(f"{'':58} {'NumPy':>8} {'native':>8} {'interpreter':>12} {'x NumPy':>8} {'x native':>8}")
    times = {engine: _times(engine, library, folder) for engine in ENGINES}
    for operation in OPERATIONS:
        print(operation + _disagreement(folder, operation))
        kernels = times["numpy"][operation]
        for kernel in kernels:
            _line(f"  {kernel}", [times[engine].get(operation, {}).get(kernel, 0.0) for engine in ENGINES])
        _line("  all launches", [sum(times[engine].get(operation, {}).values()) for engine in ENGINES])
    for number, name in ((0, "NumPy"), (1, "native")):
        ratios = list(_ratios(times, number))
        mean = exp(sum(map(log, ratios)) / len(ratios))
        print(f"geometric mean over {len(ratios)} kernels, {name}: {mean:.0f} times as fast as the interpreter")
    print(f"\nLayer norm of {LIBRARY}, forward and backward, D=256, float32, 188 SMs, after compilation:")
    for rows, executor, cores in LARGE:
        measured = json.loads(_run("bench_large.py", executor, library, folder, str(rows), str(cores)))
        print(
            f"  T={rows:<7} {executor:7} {counted(cores, 'core'):7} {measured['wall_s']:7.2f} s, "
            f"{measured['cpu_s']:7.2f} s of CPU, {measured['peak_bytes'] / 2**30:5.2f} GiB resident at most",
            flush=True,
        )


def _times(engine: str, library: str, folder: str) -> Times:
    """Run each operation in its own process.  Operations that the interpreter cannot run are missing."""
    times: Times = {}
    for operation in OPERATIONS:
        if output := _run("bench_launch.py", engine, library, folder, operation):
            times |= json.loads(output)
    return times


def _line(name: str, seconds: list[float]) -> None:
    numpy, native, interpreter = seconds
    ratios = [f"{interpreter / ours:8.0f}" if ours and interpreter else f"{'-':>8}" for ours in (numpy, native)]
    print(f"{name:58} {1e3 * numpy:8.2f} {1e3 * native:8.2f} {1e3 * interpreter:12.1f} {' '.join(ratios)}", flush=True)


def _ratios(times: dict[str, Times], number: int) -> Iterator[float]:
    """Yield the speed-up over the interpreter, for every kernel of every operation that it can run."""
    for operation, kernels in times["interpreter"].items():
        for kernel, seconds in kernels.items():
            yield seconds / times[ENGINES[number]][operation][kernel]


def _disagreement(folder: str, operation: str) -> str:
    """Return a note if the results of an operation differ between executors; empty if they agree."""
    import torch  # noqa: PLC0415 - it takes seconds

    found = {
        engine: torch.load(path) for engine in ENGINES if (path := Path(folder, f"{engine}-{operation}.pt")).exists()
    }
    notes: list[str] = []
    for engine, results in found.items():
        pairs = zip(results, found["numpy"], strict=True)
        furthest = max(float((one - other).abs().max() / other.abs().max()) for one, other in pairs)
        if not furthest <= (SAME if engine == "interpreter" else 0):
            notes.append(f"{engine} is {furthest:.1e} away from NumPy")
    return f"  ({', '.join(notes)})" if notes else ""


def _run(name: str, *arguments: str) -> str:
    """Return the last line that a program prints.  If it fails, print the reason and return nothing."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(ROOT / "ci" / name), *arguments],  # libraries warn in the interpreter
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        print(f"  {name} {' '.join(arguments[-1:])}: {(ran.stderr.strip().splitlines() or ['?'])[-1]}", file=sys.stderr)
        return ""
    return ran.stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    main()
