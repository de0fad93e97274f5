"""`make bench-gpu`: how many whole cases a second a real GPU takes, what isolation costs, and what faults cost.

Everything is measured in this one run and printed; nothing is judged.  Parts can be named: `bench_gpu.py rates faults`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from enum import Enum
from itertools import chain, repeat
from pathlib import Path
from statistics import median

from harness import libraries
from harness.cuda.gpus import RealGpu, profile_of, real_gpus
from harness.cuda.sanitizer import sanitizing
from harness.cuda.wearing import environment_of
from harness.model.case import Case, Scale
from harness.model.device import DeviceProfile
from harness.model.op import Dim, Op
from harness.model.run import OutOfMemory, Run
from harness.search.campaign import Campaign
from harness.search.hints import Hints
from harness.search.judging import Judge
from harness.search.options import CUDA
from harness.search.plan import CaseBudget, Plan
from harness.search.strategies import Batch
from harness.suite import load_suite
from harness.workers.places import GpuPlaces
from harness.workers.pool import Pool
from harness.workers.spec import Isolation, WorkerSpec

ROOT = Path(__file__).resolve().parent.parent
SUITE, LIBRARY = "suites/fla/norm.py", "fla-core==0.6.0"
FAULTS = "tests/cuda/faults.py"
SMALL = 64
"""Elements of a dim of a small case, at most."""
CASES, ROUNDS = 40, 5
GOOD, EACH = 1000, 30
HANG_LIMIT_S = 3.0


class Silent:
    """Watches a campaign and says nothing."""

    def tick(self, tally: object, trying: object) -> None:
        """Some time has passed."""

    def sighted(self, fail: object, trial: object) -> None:
        """A failure was seen."""


class Sizes(Enum):
    """Which small cases."""

    ANY = f"T, D and G up to {SMALL}"
    ONE = f"T = D = {SMALL}"


class Bench:
    """One machine with GPUs, and a folder for what is compiled."""

    def __init__(self, gpus: Sequence[RealGpu], folder: Path, library: str) -> None:
        self.gpus = tuple(gpus)
        self.device = profile_of(gpus[0])
        self.folder = folder
        self.library = library
        self.paths = tuple(map(str, libraries.resolve([library])))

    def pool(  # noqa: PLR0913 - each is one thing that is compared
        self,
        suite: str = SUITE,
        *,
        processes: int = 1,
        isolation: Isolation = Isolation.WORKER,
        limit_s: float = 60.0,
        gpus: int = 1,
        tool: str = "",
    ) -> Pool:
        """A pool on the first GPUs."""

        def spec(device: DeviceProfile) -> WorkerSpec:
            return WorkerSpec(
                device=device,
                suites=(suite,),
                scratch=str(self.folder),
                library_paths=self.paths,
                engine=CUDA,
                sanitizing=sanitizing(tool) if tool else None,
            )

        return Pool(spec, processes, limit_s, isolation, GpuPlaces(self.gpus[:gpus], print))

    def small_cases(self, sizes: Sizes) -> list[tuple[Case, Op]]:
        """Small cases of the norm suite: anything up to `SMALL`, or one size with all else drawn."""
        found: dict[str, tuple[Case, Op]] = {}
        for op in load_suite(SUITE):
            drawn = op
            if sizes is Sizes.ONE:
                if "G" in op.dims:
                    continue
                drawn = replace(op, dims={name: Dim(low=SMALL, high=SMALL) for name in op.dims})
            for case in Batch(op=drawn, device=self.device, hints=Hints(), seed=3, size=400).draw():
                if case.scale is Scale.USUAL and max(case.dims.values()) <= SMALL and case.configs == {}:
                    found[case.digest] = (case, op)
        return list(found.values())[:: max(1, len(found) // CASES)][:CASES]


def rates(bench: Bench) -> None:
    """Warm whole cases: isolated and not, companions left out so that both do the same."""
    for sizes in Sizes:
        _rates(bench, sizes)
    _apart(bench)


def _rates(bench: Bench, sizes: Sizes) -> None:
    cases = bench.small_cases(sizes)
    judge = Judge()
    print(f"\n{len(cases)} small cases of {SUITE} ({LIBRARY}), {sizes.value}, all else drawn, kernels compiled")

    def whole(pool: Pool) -> float:
        """As a campaign does: the worker has its next case while the last one is judged."""
        began = time.perf_counter()
        waiting = deque[tuple[Op, Future[Run]]]()
        for case, op in cases:
            waiting.append((op, pool.submit(case)))
            if len(waiting) > 1:
                earlier, future = waiting.popleft()
                judge.judge(earlier, future.result(), {})
        for earlier, future in waiting:
            judge.judge(earlier, future.result(), {})
        return (time.perf_counter() - began) / len(cases)

    with bench.pool() as pool:
        whole(pool)
        whole(pool)
        isolated = [whole(pool) for _ in range(ROUNDS)]
        last = [pool.run(case) for case, _ in cases]
    print(f"  ms a case in the worker:      {_split(last)}")
    told = _in_another(bench, "inside", sizes)
    print(f"  ms a case in one process:     {told[1]}")
    inside = float(told[0])
    fastest, slowest = 1e3 * min(isolated), 1e3 * max(isolated)
    print(f"  in one reused worker: {1 / median(isolated):6.0f} cases/s ({fastest:.2f} to {slowest:.2f} ms)")
    print(
        f"  in one process:       {1 / inside:6.0f} cases/s; isolated is {100 * inside / median(isolated):.0f} % of it"
    )


def _split(runs: Sequence[Run]) -> str:
    """Milliseconds a case by part of the work."""
    parts: Counter[str] = Counter()
    for run in runs:
        parts.update({part: 1e3 * seconds / len(runs) for part, seconds in run.seconds.items()})
    return ", ".join(f"{part} {ms:.2f}" for part, ms in parts.most_common())


def _apart(bench: Bench) -> None:
    """A process for each case, and a fresh interpreter for each."""
    cases = bench.small_cases(Sizes.ANY)
    print()
    with bench.pool(isolation=Isolation.CASE, processes=1) as pool:
        pool.run(cases[0][0])
        began = time.perf_counter()
        for case, _ in cases[:8]:
            pool.run(case)
        print(f"  --isolation=case:     {(time.perf_counter() - began) / 8:6.2f} s a case, one after another")
    for processes in (4, 8):
        with bench.pool(isolation=Isolation.CASE, processes=processes) as pool:
            list(ThreadPoolExecutor(processes).map(pool.run, [case for case, _ in cases[:processes]]))
            began = time.perf_counter()
            list(ThreadPoolExecutor(processes).map(pool.run, [case for case, _ in cases[:24]]))
            print(f"                        {(time.perf_counter() - began) / 24:6.2f} s a case, {processes} at once")
    began = time.perf_counter()
    _in_another(bench, "fresh", Sizes.ANY)
    print(f"  a fresh python:       {time.perf_counter() - began:6.2f} s a case")


def trivial(bench: Bench) -> None:
    """There and back: a launch of a kernel of 64 elements in a worker."""
    case = Case(op=f"{FAULTS}:good", dims={"T": 1}, dtype=load_suite(FAULTS)[0].dtypes[0], device=bench.device, seed=1)

    def spec(device: DeviceProfile) -> WorkerSpec:
        return WorkerSpec(device=device, suites=(FAULTS,), scratch=str(bench.folder), engine="ci.launching:Launching")

    with Pool(spec, 1, 60.0, places=GpuPlaces(bench.gpus[:1], print)) as pool:
        for _ in range(200):
            pool.run(case)
        began = time.perf_counter()
        for _ in range(3000):
            pool.run(case)
        print(f"\nA trivial launch in a worker, there and back: {3000 / (time.perf_counter() - began):.0f} a second")


def sanitized(bench: Bench) -> None:
    """Whole cases in a warm worker under memcheck."""
    cases = [case for case, _ in bench.small_cases(Sizes.ONE)[:20]]
    with bench.pool(tool="memcheck", limit_s=120.0) as pool:
        for case in cases:
            pool.run(case)
        began = time.perf_counter()
        for case in cases * 3:
            pool.run(case)
        took = (time.perf_counter() - began) / (3 * len(cases))
    print(f"\nUnder memcheck, in a warm worker: {1 / took:.0f} whole cases a second")
    began = time.perf_counter()
    with bench.pool(tool="memcheck", limit_s=120.0) as pool:
        pool.run(cases[0])
        print(f"  a fresh compute-sanitizer, fork server and worker: {time.perf_counter() - began:.1f} s")


def faults(bench: Bench) -> None:
    """Planted faults of each kind among good cases; each must be told apart, and no good case lost or blamed."""
    sys.path.insert(0, str(ROOT))
    from tests.cuda.faults import EXPECTED, NO_MEMORY  # noqa: PLC0415 - of the tests, not of the harness

    ops = {op.name: op for op in load_suite(FAULTS)}
    kinds = [*EXPECTED, NO_MEMORY]
    wanted = list(chain.from_iterable(repeat(kind, EACH) for kind in kinds))
    order = ["good"] * GOOD
    for index, kind in enumerate(wanted):
        order.insert((index * 7919) % len(order), kind)
    judge = Judge()
    wrong: Counter[str] = Counter()
    cost: dict[str, list[float]] = {kind: [] for kind in kinds}

    def one(numbered: tuple[int, str]) -> None:
        number, kind = numbered
        op = ops[kind]
        seed = 8 * number + (kind != "gives_other_bits")  # one in eight is run a second time
        rows = 8 if kind == "gives_other_bits" else 1 + number % 8  # two rows have the same bits by chance now and then
        case = Case(op=op.id, dims={"T": rows}, dtype=op.dtypes[0], device=bench.device, seed=seed)
        began = time.perf_counter()
        run = pool.run(case)
        took = time.perf_counter() - began
        places = [(fail.signature.oracle, fail.signature.place) for fail in judge.judge(op, run, {}).fails]
        if kind == "good":
            right = not places
        elif kind == NO_MEMORY:
            right = not places and isinstance(run.ending, OutOfMemory)
        else:
            oracle, part = EXPECTED[kind]
            right = bool(places) and all(found == oracle and part in place for found, place in places)
        if kind != "good":
            cost[kind].append(took)
        if not right:
            wrong[kind] += 1
            print(f"  wrong: {kind}: {run.ending!s:.300} {places}")

    began = time.perf_counter()
    processes = 4
    with (
        bench.pool(FAULTS, processes=processes, limit_s=HANG_LIMIT_S) as pool,
        ThreadPoolExecutor(processes) as threads,
    ):
        list(threads.map(one, enumerate(order)))
    print(
        f"\n{EACH} faults of {len(kinds)} kinds among {GOOD} good cases, {processes} processes, "
        f"limit {HANG_LIMIT_S:g} s: {time.perf_counter() - began:.0f} s"
    )
    for kind, times in cost.items():
        told = EACH - wrong[kind]
        print(f"  {kind:22} {told:3} of {EACH} told apart; {median(times):.2f} s each, {max(times):.2f} s at most")
    print(f"  good                   {GOOD - wrong['good']} of {GOOD} judged right")


def scaling(bench: Bench) -> None:
    """Cases a second of a campaign on one GPU and on more, after one that has compiled its kernels on all cores."""
    base = 0.0
    plan = Plan(
        ops=load_suite(SUITE), devices=(bench.device,), budget=CaseBudget(cases=400), seed=5, fixed_sm_count=True
    )
    cores = len(os.sched_getaffinity(0))
    with bench.pool(processes=cores, gpus=len(bench.gpus)) as pool:
        Campaign(plan, pool, Judge(), Silent(), processes=cores).run()
    for count in [one for one in (1, 2, 4, 8) if one <= len(bench.gpus)]:
        with bench.pool(processes=count, gpus=count) as pool:
            Campaign(plan, pool, Judge(), Silent(), processes=count).run()
            tally = Campaign(plan, pool, Judge(), Silent(), processes=count).run()
        rate = tally.cases / tally.seconds
        base = base or rate
        print(
            f"\n{count} GPUs: {rate:.0f} cases a second of a campaign with its companions, {rate / base:.2f} times one"
        )


PARTS = {part.__name__: part for part in (rates, trivial, sanitized, faults, scaling)}


def _in_another(bench: Bench, what: str, sizes: Sizes) -> list[str]:
    """This script's own loops that need a process of their own: CUDA is started there."""
    environment = {**os.environ, **dict(environment_of(bench.gpus[0]))}
    command = [sys.executable, __file__, what, "--folder", str(bench.folder), "--sizes", sizes.name]
    command += ["--library", bench.library]
    done = subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()[-2:]


def inside(bench: Bench, sizes: Sizes, rounds: int = ROUNDS) -> tuple[float, str]:
    """Seconds a case of the same loop in this process, and what they go into."""
    from harness.workers.loading import Loaded, load, prepare  # noqa: PLC0415 - only now does this process wear a GPU

    cases = bench.small_cases(sizes)
    spec = WorkerSpec(
        device=bench.device,
        suites=(SUITE,),
        scratch=str(bench.folder),
        library_paths=bench.paths,
        engine=CUDA,
        environment=environment_of(bench.gpus[0]),
    )
    loaded = load(spec, prepare(spec.ground))
    assert isinstance(loaded, Loaded), loaded
    assert not loaded.engine.begin()
    judge = Judge()
    times: list[float] = []
    runs: list[Run] = []
    for _ in range(rounds + 2 if rounds > 1 else 1):
        began = time.perf_counter()
        runs = [loaded.engine.run(loaded.ops[case.op], case) for case, _ in (cases if rounds > 1 else cases[:1])]
        for (_, op), run in zip(cases, runs, strict=False):
            judge.judge(op, run, {})
        times.append((time.perf_counter() - began) / len(cases))
    return median(times[2:] or times), _split(runs)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, "inside", "fresh", []])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--sizes", default=Sizes.ANY.name)
    parser.add_argument("--library", default=LIBRARY)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="harness-bench-gpu-") as made:
        bench = Bench(real_gpus(), given.folder or Path(made), given.library)
        if given.parts in (["inside"], ["fresh"]):
            print(*inside(bench, Sizes[given.sizes], ROUNDS if given.parts == ["inside"] else 1), sep="\n")
            sys.stdout.flush()
            os._exit(0)
        names = ", ".join(map(str, bench.gpus))
        print(f"{names}; driver {bench.gpus[0].driver_version}; {len(os.sched_getaffinity(0))} cores")
        for part in given.parts or PARTS:
            PARTS[part](bench)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
