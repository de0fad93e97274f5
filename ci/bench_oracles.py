"""Measure what the extra work of each group of oracles costs, by suite.

Seconds are wall-clock time in one worker, which runs cases one after another.  `paired runs` are whole runs;
every other row is a part of the first run or of a rerun.  The checks of memory and of the order of programs are in
`execution`.  `bench_oracles.py FOLDER [CASES]`: caches lie in the folder; the first search fills them.
"""

import os
import sys
from collections import Counter
from pathlib import Path

from bench_cases import DEVICE, LIBRARY, searched, specs_of

from harness.catalogue import find
from harness.model.paired_run import PairedRun
from harness.model.run import STARVED, Run
from harness.search.campaign import CampaignWorkers
from harness.search.runner import RecordingRunner
from harness.suite import load_suite
from harness.workers.pool import Pool

LIGER = "liger-kernel==0.8.5"
SUITES = (
    ("suites/fla/norm.py", "", LIBRARY),
    ("suites/fla/gla.py", "chunk_gla", LIBRARY),
    ("suites/fla/gated_delta_rule.py", "chunk_gated_delta_rule", LIBRARY),
    ("suites/liger/norm.py", "", LIGER),
)
CASES = 60
GROUPS = {
    "paired runs": "config-, sm- and order-invariance",
    "threads": "thread-race",
    "rows": "row-invariance",
    "tuning": "tuning-invariance, autotuner-key",
    "later calls": "repeat-call",
    "exact": "wrong-value, precision: launches alone",
    "other lanes": "undefined-lanes",
    "reference": "float64-values",
    "compare": "float64-values",
    "execution": "launches, with bounds, write-overlap, uninitialised-read, order-dependence",
}
"""By part of a run, the oracles that need it."""


class OracleCosts:
    """Adds up where the time of runs goes, by group."""

    def __init__(self) -> None:
        self.by_group: Counter[str] = Counter()

    def add(self, run: Run) -> None:
        """Add one run; time without a core is no cost of an oracle."""
        parts = {part: seconds for part, seconds in run.seconds.items() if part != STARVED}
        self.by_group.update({"paired runs": sum(parts.values())} if isinstance(run, PairedRun) else parts)

    def rows(self, cases: int) -> list[str]:
        """Return a table: milliseconds a case and the share of all, the largest first."""
        total = sum(self.by_group.values())
        figures = (
            (group, f"{1e3 * seconds / cases:8.1f} ms {100 * seconds / total:5.1f} %")
            for group, seconds in self.by_group.most_common()
        )
        return [f"  {group:12} {cost}  {GROUPS.get(group, '')}".rstrip() for group, cost in figures]


def main() -> None:
    """Print a table for each suite."""
    folder, cases = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else CASES
    device = find(DEVICE)
    for suite, name, library in SUITES:
        ops = tuple(op for op in load_suite(suite) if name in {"", op.name})
        specs = specs_of(suite, folder, library)
        for _ in ("cold", "warm"):  # the first search compiles
            costs = OracleCosts()
            with Pool(specs, 1, time_limit_s=60) as pool:
                workers = CampaignWorkers(runner=RecordingRunner(pool, costs.add), processes=1)
                done = searched(workers, ops, device, cases).cases
        print(f"\nTime of a case of {name or suite} ({library}) on {device}, {done} cases, wall-clock, one worker:")
        print("\n".join(costs.rows(done)), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # as in `bench_cases`
