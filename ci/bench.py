"""`make bench`: measure the speeds that the docs state, as ratios and rates of one run.

It asserts nothing, since the timing of a shared machine is no test.  Compare figures of one run only.
"""

import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = (
    "bench_start.py",
    "bench_executors.py",
    "bench_exact.py",
    "bench_cases.py",
    "bench_oracles.py",
    "bench_compiled.py",
    "bench_ptx.py",
)


def main() -> int:
    """Measure and print."""
    packages = " ".join(f"{name} {version(name)}" for name in ("torch", "triton", "numpy", "llvmlite", "hypothesis"))
    print(f"Python {platform.python_version()}, {packages}; {len(os.sched_getaffinity(0))} cores, {platform.machine()}")
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as folder:
        for program in PROGRAMS:
            subprocess.run([sys.executable, str(ROOT / "ci" / program), folder], cwd=ROOT, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
