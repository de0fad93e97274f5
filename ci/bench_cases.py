"""Measure whole cases per second of some suites, where the time goes, and the cost of isolation.

It prints the CPU time of all processes too, which a busy machine distorts less than the rate.

`bench_cases.py FOLDER`: caches lie in the folder, which must be empty.  So the first search compiles everything, and
the second one, with the same cases, nothing.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median

import psutil

from harness import libraries
from harness.catalogue import find
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.run import Run
from harness.model.verdict import Fail
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_plan import CampaignPlan, CaseBudget
from harness.search.campaign_statistics import CampaignStatistics, Trial
from harness.search.judge import Judge
from harness.search.launch_feedback import LaunchFeedback
from harness.search.runner import RecordingRunner
from harness.search.strategies import Batch
from harness.settings import Settings
from harness.suite import load_suite
from harness.workers.pool import Pool
from harness.workers.spec import WorkerSpec

SUITE = "suites/fla/norm.py"
LIBRARY = "fla-core==0.6.0"
DEVICE = "rtx-pro-6000"
CASES = 500
ATTENTION = {"suites/fla/gla.py": "chunk_gla", "suites/fla/gated_delta_rule.py": "chunk_gated_delta_rule"}
"""By suite, an op of chunked attention.  Each launches about a dozen kernels, forward and backward."""
ATTENTION_CASES = 60
PROCESSES = 2
ISOLATED_CASES = 40
ROUNDS = 5


class SecondsSpent:
    """Adds up where the time of runs goes."""

    def __init__(self) -> None:
        self.by_part: Counter[str] = Counter()
        self.runs = 0

    def add(self, run: Run) -> None:
        self.by_part.update(run.seconds)
        self.runs += 1


class SilentObserver:
    """An observer that does nothing."""

    def tick(self, statistics: CampaignStatistics, latest: Case | None) -> None:
        pass

    def sighted(self, fail: Fail, trial: Trial) -> None:
        pass


def main() -> None:
    """Print the figures."""
    folder = Path(sys.argv[1])
    device = find(DEVICE)
    ops = load_suite(SUITE)
    _suite(specs_of(SUITE, folder), ops, device, CASES)
    for suite, op in ATTENTION.items():
        chosen = tuple(one for one in load_suite(suite) if one.name == op)
        _suite(specs_of(suite, folder), chosen, device, ATTENTION_CASES)
    _draw(ops, device)
    with Pool(specs_of(SUITE, folder), 1, time_limit_s=60) as pool:
        _isolation(pool, specs_of(SUITE, folder)(device), ops)


def specs_of(suite: str, folder: Path, library: str = LIBRARY) -> Callable[[DeviceProfile], WorkerSpec]:
    """Return what makes the specs of a suite's workers, whose caches lie in the folder."""
    paths = libraries.resolve([library], cache=Settings.from_environment(os.environ).cache)

    def spec(emulated: DeviceProfile) -> WorkerSpec:
        return WorkerSpec(device=emulated, suites=(suite,), scratch=str(folder), library_paths=paths)

    return spec


def _suite(
    specs: Callable[[DeviceProfile], WorkerSpec], ops: tuple[Op, ...], device: DeviceProfile, cases: int
) -> None:
    what = ", ".join(op.name for op in ops)
    print(f"\nWhole cases of {what} ({LIBRARY}) on {device}, {PROCESSES} processes, {cases} cases, all oracles:")
    for state in ("cold", "warm"):
        with Pool(specs, PROCESSES, time_limit_s=60) as pool:
            _search(state, pool, ops, device, cases)


def _search(state: str, pool: Pool, ops: tuple[Op, ...], device: DeviceProfile, cases: int) -> None:
    pool.prepare(device)
    spent = SecondsSpent()
    workers = CampaignWorkers(runner=RecordingRunner(pool, spent.add), processes=PROCESSES)
    began = cpu_seconds()
    statistics = searched(workers, ops, device, cases)
    taken = cpu_seconds() - began
    parts = ", ".join(f"{part} {1e3 * seconds / spent.runs:.1f}" for part, seconds in spent.by_part.most_common())
    print(f"  {state}: {statistics.cases / statistics.seconds:6.1f} cases/s, {spent.runs} runs, paired runs included")
    used = 100 * taken / (PROCESSES * statistics.seconds)
    print(f"        ms of CPU a case: {1e3 * taken / statistics.cases:.1f}, of {PROCESSES} cores {used:.0f} % used")
    print(f"        ms a run: {parts}")


def searched(workers: CampaignWorkers, ops: tuple[Op, ...], device: DeviceProfile, cases: int) -> CampaignStatistics:
    """Run a search, and return its statistics."""
    plan = CampaignPlan(ops=ops, devices=(device,), budget=CaseBudget(cases=cases), seed=0)
    return Campaign(plan, workers, Judge(), SilentObserver()).run()


def cpu_seconds() -> float:
    """Return the CPU time of this process, its descendants, and the ended processes that they waited for."""
    total = 0.0
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def _draw(ops: tuple[Op, ...], device: DeviceProfile) -> None:
    began = time.perf_counter()
    drawn = sum(len(Batch(op=op, device=device, feedback=LaunchFeedback(), seed=1, size=CASES).draw()) for op in ops)
    print(f"        draw {1e3 * (time.perf_counter() - began) / drawn:.1f} ms a case, in the parent")


def _isolation(pool: Pool, spec: WorkerSpec, ops: tuple[Op, ...]) -> None:
    """Run the same warm cases in this process and in one worker, alternately."""
    from harness.workers.zygote.loading import Loaded, load, prepare  # noqa: PLC0415 - starts to emulate a GPU

    loaded = load(spec, prepare(spec.engine))
    assert isinstance(loaded, Loaded), loaded
    batches = [Batch(op=op, device=spec.device, feedback=LaunchFeedback(), seed=2, size=60) for op in ops]
    drawn = [case for batch in batches for case in batch.draw()]
    cases = list({case.digest: case for case in drawn}.values())[:ISOLATED_CASES]

    def here() -> None:
        for case in cases:
            loaded.engine.run(loaded.ops[case.op], case)

    def there() -> None:
        for case in cases:
            pool.run(case)

    for way in (here, there):  # warm both
        way()
    pairs = [(_seconds(here), _seconds(there)) for _ in range(ROUNDS)]
    inside, isolated = (1e3 * median(times) / len(cases) for times in zip(*pairs, strict=True))
    print(f"\nIsolation: {len(cases)} warm cases, {inside:.1f} ms each in this process, {isolated:.1f} ms in a worker")
    print(f"  ratio {isolated / inside:.2f}", flush=True)


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
    os._exit(0)  # the engine leaves a thread with modes of torch, which the interpreter cannot end
