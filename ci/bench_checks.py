"""Measures how fast candidates are checked: `python -m ci.bench_checks`, in a folder that may get a `.harness`.

It prints the seconds of `harness check` with warm caches, and what a check by a warm checker takes: CPU time, seconds,
and seconds for a candidate that is new to it.  Then it prints how many checks of 20 cases a second warm checkers reach:
one, and two of one process each, in threads of their own.  CPU time is that of all processes, so it depends less on
what else runs.
"""

import ctypes
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import harness
from ci.bench_cases import cpu_seconds
from ci.check_answers import FOLDER

CHECKS = 10
NAMES = ("softmax", "swish")
PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """Print the figures, one a line."""
    # Workers that outlive their server for a moment become children of this process, and are counted.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    command = [sys.executable, "-m", "harness.cli", "check", str(_answer("softmax")), str(_problem("softmax"))]
    for turn in ("cold", "warm"):
        begun = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        print(f"harness check, {turn}: {time.monotonic() - begun:.1f} s")
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
    _print_one_check()
    print(f"one warm checker: {_rate(NAMES[0]):.2f} checks of 20 cases a second")
    with ThreadPoolExecutor(len(NAMES)) as threads:
        total = sum(threads.map(lambda name: _rate(name, processes=1), NAMES))
    print(f"two warm checkers of one process each: {total:.2f} checks of 20 cases a second")


def _print_one_check() -> None:
    """Print what a check takes by a warm checker, for a candidate that it knows and for new ones; medians."""
    problem = _problem("softmax")
    with harness.Checker() as checker, TemporaryDirectory() as folder:
        checker.check(_answer("softmax"), problem, seed=0)
        seconds, cpu = list[float](), list[float]()
        for seed in range(1, CHECKS + 1):
            before, begun = cpu_seconds(), time.monotonic()
            assert checker.check(_answer("softmax"), problem, seed=seed)
            seconds.append(time.monotonic() - begun)
            cpu.append(cpu_seconds() - before)
        print(f"a check: {statistics.median(cpu):.2f} s of CPU time, {statistics.median(seconds):.2f} s")
        seconds.clear()
        for seed in range(1, CHECKS + 1):
            new = Path(folder, f"candidate_{seed}.py")
            new.write_text(f"{_answer('softmax').read_text()}\n# {seed}\n")
            begun = time.monotonic()
            assert checker.check(new, problem, seed=seed)
            seconds.append(time.monotonic() - begun)
        print(f"the verdict on a new candidate: {statistics.median(seconds):.2f} s, at most {max(seconds):.2f} s")


def _rate(name: str, *, processes: int | None = None) -> float:
    with harness.Checker(processes=processes) as checker:
        checker.check(_answer(name), _problem(name))
        begun = time.monotonic()
        for _ in range(CHECKS):
            assert checker.check(_answer(name), _problem(name))
        return CHECKS / (time.monotonic() - begun)


def _answer(name: str) -> Path:
    return FOLDER / f"{name}_right.py"


def _problem(name: str) -> Path:
    return FOLDER / f"{name}_problem.py"


if __name__ == "__main__":
    main()
