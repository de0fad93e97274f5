"""Measures how fast candidates are checked: `python -m ci.bench_checks`, in a folder that may get a `.harness`.

It prints the seconds of `harness check` with warm caches, and how many checks of 20 cases a second warm checkers reach:
one, and two in threads of their own.  CPU seconds count all processes, so they depend less on what else runs.
"""

import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import harness
from ci.check_answers import FOLDER

CHECKS = 10
NAMES = ("softmax", "swish")


def main() -> None:
    """Print the figures, one a line."""
    answer, problem = FOLDER / "softmax_right.py", FOLDER / "softmax_problem.py"
    command = [sys.executable, "-m", "harness.cli", "check", str(answer), str(problem)]
    for turn in ("cold", "warm"):
        begun = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        print(f"harness check, {turn}: {time.monotonic() - begun:.1f} s")
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
    used = _cpu_s()
    print(f"one warm checker: {_rate(NAMES[0]):.2f} checks of 20 cases a second")
    print(f"CPU of it, with its start: {_cpu_s() - used:.1f} s for {CHECKS + 1} checks")
    with ThreadPoolExecutor(len(NAMES)) as threads:
        print(f"two warm checkers: {sum(threads.map(_rate, NAMES)):.2f} checks of 20 cases a second")


def _rate(name: str) -> float:
    with harness.Checker() as checker:
        checker.check(FOLDER / f"{name}_right.py", FOLDER / f"{name}_problem.py")
        begun = time.monotonic()
        for _ in range(CHECKS):
            assert checker.check(FOLDER / f"{name}_right.py", FOLDER / f"{name}_problem.py")
        return CHECKS / (time.monotonic() - begun)


def _cpu_s() -> float:
    own, children = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main()
