"""How many whole cases of some suites run in a second, where the time goes, and what isolation costs of it.

Beside cases a second stands CPU time, of all processes together: it says on a busy machine what a quiet one could do.

`bench_cases.py FOLDER`: caches lie under the folder, which is empty at first, so that the first search compiles
everything and the second, of the same cases, nothing.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from statistics import median

import psutil

from harness import libraries
from harness.devices.catalogue import find
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.paired_run import RunRequest
from harness.model.run import Run
from harness.model.verdict import Fail
from harness.search.campaign import Campaign
from harness.search.campaign_statistics import CampaignStatistics, Trial
from harness.search.judge import Judge
from harness.search.launch_feedback import Hints
from harness.search.plan import CaseBudget, Plan
from harness.search.strategies import Batch
from harness.suite import load_suite
from harness.workers.pool import Pool
from harness.workers.spec import WorkerSpec
from harness.workers.supervision.time_limits import Patience

SUITE = "suites/fla/norm.py"
LIBRARY = "fla-core==0.6.0"
DEVICE = "rtx-pro-6000"
CASES = 500
ATTENTION = {"suites/fla/gla.py": "chunk_gla", "suites/fla/gated_delta_rule.py": "chunk_gated_delta_rule"}
"""By suite, the op that stands for chunked attention; each launches about a dozen kernels, forward and backward."""
ATTENTION_CASES = 60
PROCESSES = 2
ISOLATED_CASES = 40
ROUNDS = 5


class Timed:
    """A runner that adds up where the time of every run went."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.seconds: Counter[str] = Counter()
        self.runs = 0

    def submit(self, wanted: RunRequest) -> Future[Run]:
        """As the pool does."""
        future = self._pool.submit(wanted)
        future.add_done_callback(self._note)
        return future

    def run(self, wanted: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        """As the pool does."""
        return self._pool.run(wanted, patience=patience)

    def run_alone(self, wanted: RunRequest, before: Sequence[Case] = (), *, patience: Patience = Patience.USUAL) -> Run:
        """As the pool does."""
        return self._pool.run_alone(wanted, before, patience=patience)

    def _note(self, future: Future[Run]) -> None:
        if not future.cancelled() and not future.exception():
            self.seconds.update(future.result().seconds)
            self.runs += 1


class Silent:
    """Watches a campaign and says nothing."""

    def tick(self, tally: CampaignStatistics, trying: Case | None) -> None:
        """Some time has passed."""

    def sighted(self, fail: Fail, trial: Trial) -> None:
        """A failure was seen."""


def main() -> None:
    """Print the figures."""
    folder = Path(sys.argv[1])
    device = find(DEVICE)
    ops = load_suite(SUITE)
    _suite(_specs(SUITE, folder), ops, device, CASES)
    for suite, op in ATTENTION.items():
        chosen = tuple(one for one in load_suite(suite) if one.name == op)
        _suite(_specs(suite, folder), chosen, device, ATTENTION_CASES)
    _draw(ops, device)
    with Pool(_specs(SUITE, folder), 1, time_limit_s=60) as pool:
        _isolation(pool, _specs(SUITE, folder)(device), ops)


def _specs(suite: str, folder: Path) -> Callable[[DeviceProfile], WorkerSpec]:
    paths = tuple(map(str, libraries.resolve([LIBRARY])))

    def spec(worn: DeviceProfile) -> WorkerSpec:
        return WorkerSpec(device=worn, suites=(suite,), scratch=str(folder), library_paths=paths)

    return spec


def _suite(
    specs: Callable[[DeviceProfile], WorkerSpec], ops: tuple[Op, ...], device: DeviceProfile, cases: int
) -> None:
    what = ", ".join(op.name for op in ops)
    print(f"\nWhole cases of {what} ({LIBRARY}) as on {device}, {PROCESSES} processes, all oracles, {cases} cases:")
    for state in ("cold", "warm"):
        with Pool(specs, PROCESSES, time_limit_s=60) as pool:
            _search(state, pool, ops, device, cases)


def _search(state: str, pool: Pool, ops: tuple[Op, ...], device: DeviceProfile, cases: int) -> None:
    pool.prepare(device)
    runner = Timed(pool)
    began = _cpu_seconds()
    plan = Plan(ops=ops, devices=(device,), budget=CaseBudget(cases=cases), seed=0)
    tally = Campaign(plan, runner, Judge(), Silent(), processes=PROCESSES).run()
    taken = _cpu_seconds() - began
    parts = ", ".join(f"{part} {1e3 * spent / runner.runs:.1f}" for part, spent in runner.seconds.most_common())
    print(f"  {state}: {tally.cases / tally.seconds:6.1f} cases/s, {runner.runs} runs with companions")
    print(f"        ms of CPU a case: {1e3 * taken / tally.cases:.1f}, of {PROCESSES} cores {_used(taken, tally)} used")
    print(f"        ms a run: {parts}")


def _used(taken: float, tally: CampaignStatistics) -> str:
    return f"{100 * taken / (PROCESSES * tally.seconds):.0f} %"


def _cpu_seconds() -> float:
    """Of this process, of those below it, and of those that they have waited for."""
    own = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in (own, *own.children(recursive=True)))


def _draw(ops: tuple[Op, ...], device: DeviceProfile) -> None:
    began = time.perf_counter()
    drawn = sum(len(Batch(op=op, device=device, hints=Hints(), seed=1, size=CASES).draw()) for op in ops)
    print(f"        draw {1e3 * (time.perf_counter() - began) / drawn:.1f} ms a case, in the parent")


def _isolation(pool: Pool, spec: WorkerSpec, ops: tuple[Op, ...]) -> None:
    """The same warm cases in this process and in one worker, in turns."""
    from harness.workers.zygote.loading import Loaded, load, prepare  # noqa: PLC0415 - only now does this process wear a GPU

    loaded = load(spec, prepare(spec.ground))
    assert isinstance(loaded, Loaded), loaded
    drawn = [case for op in ops for case in Batch(op=op, device=spec.device, hints=Hints(), seed=2, size=60).draw()]
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
    print(f"\nIsolation: {len(cases)} warm cases, {inside:.1f} ms each in one process, {isolated:.1f} ms in a worker")
    print(f"  ratio {isolated / inside:.2f}", flush=True)


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
    os._exit(0)  # the engine that ran in this process has a thread of torch's modes, which the interpreter cannot end
