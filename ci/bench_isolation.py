"""What isolation costs: the same cases in this process and in one worker, in turns, with an engine that only computes.

Prints the ratio for cases of several lengths, and round trips and forks a second.  Needs no GPU, torch or Triton.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from harness.model.case import Case  # noqa: E402 — after the path that finds it
from harness.suite import load_suite  # noqa: E402
from harness.workers.pool import Pool  # noqa: E402
from tests.workers.engines import Calling  # noqa: E402
from tests.workers.setting import DEVICE, MISCHIEF, case, specs  # noqa: E402

ROUNDS = 5
CASES = 100
ROWS = (10, 100, 500)
"""How long a case works: about so many thousand additions."""


def main() -> None:
    """Print the figures."""
    engine = Calling()
    engine.wear(DEVICE)
    ops = {op.id: op for op in load_suite(MISCHIEF)}
    with tempfile.TemporaryDirectory() as scratch, Pool(specs(Path(scratch)), processes=1, time_limit_s=60) as pool:
        pool.prepare(DEVICE)
        for rows in ROWS:
            work = case("works", rows)
            here, there = in_turns(lambda one: engine.run(ops[one.op], one), pool.run, work)
            print(f"case of {here * 1e3:.2f} ms: {there * 1e3:.2f} ms in a worker, ratio {there / here:.2f}")
        trip_s = median(seconds(pool.run, case("good")) for _ in range(ROUNDS))
        print(f"round trips: {1 / trip_s:.0f} a second ({trip_s * 1e6:.0f} µs each)")
        fork_s = median(seconds(pool.run_alone, case("good")) for _ in range(ROUNDS))
        print(f"cases in a process each: {1 / fork_s:.0f} a second ({fork_s * 1e3:.1f} ms each)")


def in_turns(here: Callable[[Case], object], there: Callable[[Case], object], work: Case) -> tuple[float, float]:
    """Median seconds a case, here and there, measured alternately so that the machine's moods fall on both."""
    pairs = [(seconds(here, work), seconds(there, work)) for _ in range(ROUNDS)]
    return median(first for first, _ in pairs), median(second for _, second in pairs)


def seconds(run: Callable[[Case], object], work: Case) -> float:
    """Mean seconds a case."""
    started = perf_counter()
    for _ in range(CASES):
        run(work)
    return (perf_counter() - started) / CASES


if __name__ == "__main__":
    main()
