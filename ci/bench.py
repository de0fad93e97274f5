"""`make bench`: the speeds that the README states, each as a ratio or a rate measured in this one run.

Judges nothing and asserts nothing: a shared machine's timing is no test.  Compare figures of one run only.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from harness import libraries

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = "fla-core==0.5.2"
"""The release that Triton's interpreter and the virtual GPU both run."""


def main() -> int:
    """Measure and print."""
    packages = " ".join(f"{name} {version(name)}" for name in ("torch", "triton", "numpy", "hypothesis"))
    print(f"Python {platform.python_version()}, {packages}; {len(os.sched_getaffinity(0))} cores, {platform.machine()}")
    (path,) = libraries.resolve([LIBRARY])
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        _launches(str(path), folder)
        _cases(folder)
    return 0


def _launches(library: str, folder: str) -> None:
    print(f"\nOne launch of layer_norm_bwd_kernel ({LIBRARY}, T=450, D=64, 188 programs, fp32), best of several:")
    virtual = _program("bench_launch.py", "virtual", library, folder)["seconds"]
    interpreter = _program("bench_launch.py", "interpreter", library, folder)["seconds"]
    print(f"  TTIR machine, all shadow checks on     {virtual * 1e3:9.1f} ms")
    print(f"  Triton's interpreter, no checks        {interpreter * 1e3:9.1f} ms")
    print(f"  ratio                                  {interpreter / virtual:9.1f}")


def _cases(folder: str) -> None:
    subprocess.run([sys.executable, str(ROOT / "ci" / "bench_cases.py"), folder], cwd=ROOT, check=True)


def _program(name: str, *arguments: str) -> dict[str, float]:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(ROOT / "ci" / name), *arguments],  # libraries warn in the interpreter
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    sys.exit(main())
