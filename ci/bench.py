"""`make bench`: the speeds that the README states, each as a ratio or a rate measured in this one run.

Judges nothing and asserts nothing: a shared machine's timing is no test.  Compare figures of one run only.
"""

import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Measure and print."""
    packages = " ".join(f"{name} {version(name)}" for name in ("torch", "triton", "numpy", "llvmlite", "hypothesis"))
    print(f"Python {platform.python_version()}, {packages}; {len(os.sched_getaffinity(0))} cores, {platform.machine()}")
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        _launches(folder)
        _cases(folder)
    return 0


def _launches(folder: str) -> None:
    subprocess.run([sys.executable, str(ROOT / "ci" / "bench_executors.py"), folder], cwd=ROOT, check=True)


def _cases(folder: str) -> None:
    subprocess.run([sys.executable, str(ROOT / "ci" / "bench_cases.py"), folder], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
