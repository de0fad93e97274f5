"""`make bench-gpu`: how many whole cases a second a real GPU takes, what isolation costs, and what faults cost.

Everything is measured in this one run and printed; nothing is judged.  Parts can be named: `bench_gpu.py rates faults`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from ci.bench_gpu_faults import FAULTS, faults
from ci.bench_gpu_machine import LIBRARY, ROOT, SUITE, Bench, Silent, Sizes, flow
from harness.cuda.emulation import environment_of
from harness.cuda.gpus.inventory import real_gpus
from harness.errors import HarnessError
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.run import Run
from harness.search.judge import Judge
from harness.search.options import CUDA, Options, load_ops
from harness.search.plan import TimeBudget
from harness.search.session import Session
from harness.suite import load_suite
from harness.workers.dispatcher import KEEP_BUSY
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.pool import Pool
from harness.workers.spec import Isolation, WorkerSpec
from harness.workers.zygote.loading import Loaded, load, prepare

ROUNDS = 5
LENGTH = 4
"""So many times the cases of a round flow through a worker, as in a search: its first and its last case wait."""
APART = 24
"""So many cases run in a process each."""
COLD_S = 90.0
ROUND = "round"
"""Begins the line that a process says of a round."""


def rates(bench: Bench) -> None:
    """Warm whole cases: isolated and not, companions left out so that both do the same."""
    for sizes in Sizes:
        _rates(bench, sizes)
    _apart(bench)


def _rates(bench: Bench, sizes: Sizes) -> None:
    cases = bench.small_cases(sizes)
    bench.compile_ahead([case for case, _ in cases])
    print(f"\n{len(cases)} small cases of {SUITE} ({LIBRARY}), {sizes.value}, all else drawn, kernels compiled")
    with bench.pool() as pool, _in_another(bench, "inside", sizes) as ask:
        turns = [(flow(pool, cases * LENGTH, KEEP_BUSY), *ask()) for _ in range(2 + ROUNDS)]
        last = [pool.run(case) for case, _ in cases]
    isolated, alone, parts = zip(*turns[2:], strict=True)  # the first two warm up
    shares = sorted(100 * one / other for one, other in zip(alone, isolated, strict=True))
    print(f"  ms a case in the worker:      {_split(last)}")
    print(f"  ms a case in one process:     {parts[-1]}")
    print(f"  in one reused worker: {_spread(isolated)}")
    print(f"  in one process:       {_spread(alone)}")
    print(f"  in turns, isolated comes to {median(shares):.0f} % of it ({shares[0]:.0f} to {shares[-1]:.0f} %)")


def _spread(times: Sequence[float]) -> str:
    return f"{1 / median(times):6.0f} cases/s ({1e3 * min(times):.2f} to {1e3 * max(times):.2f} ms)"


def _split(runs: Sequence[Run]) -> str:
    """Milliseconds a case by part of the work."""
    parts: Counter[str] = Counter()
    for run in runs:
        parts.update({part: 1e3 * seconds / len(runs) for part, seconds in run.seconds.items()})
    return ", ".join(f"{part} {ms:.2f}" for part, ms in parts.most_common())


def _apart(bench: Bench) -> None:
    """A process for each case, and a fresh interpreter for each."""
    cases = [case for case, _ in bench.small_cases(Sizes.ANY)][:APART]
    print()
    with bench.pool(isolation=Isolation.CASE, processes=1) as pool:
        pool.run(cases[0])
        began = time.perf_counter()
        for case in cases:
            pool.run(case)
        print(f"  --isolation=case:     {(time.perf_counter() - began) / len(cases):6.3f} s a case, one after another")
    for processes in (4, 8):
        with bench.pool(isolation=Isolation.CASE, processes=processes) as pool:
            list(ThreadPoolExecutor(processes).map(pool.run, cases[:processes]))
            began = time.perf_counter()
            list(ThreadPoolExecutor(processes).map(pool.run, cases))
            seconds = (time.perf_counter() - began) / len(cases)
            print(f"                        {seconds:6.3f} s a case, {processes} at once")
    began = time.perf_counter()
    with _in_another(bench, "fresh", Sizes.ANY) as ask:
        ask()
    print(f"  a fresh python:       {time.perf_counter() - began:6.2f} s a case")


def trivial(bench: Bench) -> None:
    """There and back: a launch of a kernel of 64 elements in a worker."""
    case = Case(op=f"{FAULTS}:good", dims={"T": 1}, dtype=load_suite(FAULTS)[0].dtypes[0], device=bench.device, seed=1)

    def spec(device: DeviceProfile) -> WorkerSpec:
        return WorkerSpec(device=device, suites=(FAULTS,), scratch=str(bench.folder), engine="ci.launching:Launching")

    with Pool(spec, 1, 60.0, places=GpuAssigner(bench.gpus[:1], print)) as pool:
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


def scaling(bench: Bench) -> None:
    """Whole cases a second on one GPU and on more, in turns, kernels compiled, companions left out."""
    cases = bench.small_cases(Sizes.ONE)
    bench.compile_ahead([case for case, _ in cases])
    counts = [count for count in (1, 2, 4, 8) if count <= len(bench.gpus)]
    times: dict[int, list[float]] = {count: [] for count in counts}
    parent_s = dict.fromkeys(counts, 0.0)
    with ExitStack() as stack:
        pools = {count: stack.enter_context(bench.pool(processes=count, gpus=count)) for count in counts}
        for count, pool in pools.items():
            flow(pool, cases * (2 * count), KEEP_BUSY * count)
        for _ in range(ROUNDS):
            for count, pool in pools.items():
                before_s = time.process_time()
                times[count].append(flow(pool, cases * (LENGTH * count), KEEP_BUSY * count))
                parent_s[count] += time.process_time() - before_s
    for count in counts:
        ratios = sorted(one / several for one, several in zip(times[1], times[count], strict=True))
        parent_ms = 1e3 * parent_s[count] / (ROUNDS * LENGTH * count * len(cases))
        print(
            f"\n{count} GPUs: {1 / median(times[count]):.0f} whole cases a second, {median(ratios):.2f} times one "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f}); {parent_ms:.2f} ms of CPU a case in the parent"
        )


def cold(bench: Bench) -> None:
    """A search by time with empty caches: the other cores compile for the GPUs, which should not wait long for them."""
    with tempfile.TemporaryDirectory(prefix="harness-cold-") as folder, chdir(folder):
        suites = (str(ROOT / SUITE),)
        options = Options(
            suites=suites,
            ops=load_ops(suites, ()),
            devices=(bench.device,),
            budget=TimeBudget(seconds=COLD_S),
            seed=5,
            libraries=(bench.library,),
            engine=CUDA,
            gpus=1,
        )
        with Session(options, print) as session:
            tally = session.campaign(options.plan, Silent()).run()
            waiting = session.waiting or 0.0
    print(
        f"\nWith empty caches: {tally.cases} cases with their companions in {tally.seconds:.0f} s, "
        f"{tally.cases / tally.seconds:.0f} a second; the GPU waited for the compiler {waiting:.0%} of the time"
    )


PARTS = {part.__name__: part for part in (rates, trivial, sanitized, faults, scaling, cold)}


Ask = Callable[[], tuple[float, str]]
"""Has one round run there; seconds a case, and what they go into."""


@contextmanager
def _in_another(bench: Bench, what: str, sizes: Sizes) -> Generator[Ask]:
    """This script's own loops that need a process of their own, since CUDA is started there."""
    environment = {**os.environ, **dict(environment_of(bench.gpus[0]))}
    command = [sys.executable, __file__, what, "--folder", str(bench.folder), "--sizes", sizes.name]
    command += ["--library", bench.library]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        asked, told = process.stdin, process.stdout
        assert asked is not None
        assert told is not None

        def ask() -> tuple[float, str]:
            print("another", file=asked, flush=True)
            said = next((line for line in told if line.startswith(ROUND)), None)
            assert said is not None, f"it ended: {process.wait()}"
            _, seconds, parts = said.split(maxsplit=2)
            return float(seconds), parts.strip()

        yield ask


def inside(bench: Bench, cases: Sequence[tuple[Case, Op]]) -> None:
    """The same loop in this process, a round for each line that comes in."""
    spec = replace(bench.spec, environment=environment_of(bench.gpus[0]))
    loaded = load(spec, prepare(spec.ground))
    assert isinstance(loaded, Loaded), loaded
    assert not loaded.engine.begin()
    judge = Judge()
    for _ in sys.stdin:
        began = time.perf_counter()
        runs: list[Run] = []
        for case, op in cases:
            runs.append(loaded.engine.run(loaded.ops[case.op], case))
            judge.judge(op, runs[-1], {})
        print(ROUND, (time.perf_counter() - began) / len(cases), _split(runs), flush=True)


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
            cases = bench.small_cases(Sizes[given.sizes])
            inside(bench, cases * LENGTH if given.parts == ["inside"] else cases[:1])
            os._exit(0)
        names = ", ".join(map(str, bench.gpus))
        print(f"{names}; driver {bench.gpus[0].driver_version}; {len(os.sched_getaffinity(0))} cores")
        for part in given.parts or PARTS:
            PARTS[part](bench)
            sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(f"bench-gpu: {error}")
    except KeyboardInterrupt:
        sys.exit("bench-gpu: interrupted")
