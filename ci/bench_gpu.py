"""`make bench-gpu`: the rate of whole cases on a hardware GPU, the cost of isolation and the cost of faults.

It prints what it measures and asserts nothing.  Arguments select parts: `bench_gpu.py rates faults`.
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
from harness.engines.cuda.emulation import worker_environment
from harness.engines.cuda.gpus.inventory import real_gpus
from harness.errors import HarnessError
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.engine_traits import CUDA
from harness.model.op import Op
from harness.model.run import Run
from harness.search.campaign_plan import TimeBudget
from harness.search.judge import Judge
from harness.search.options import Options, load_ops
from harness.search.session import Session
from harness.suite import load_suite
from harness.workers.dispatcher import KEEP_BUSY
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import Isolation, WorkerSpec
from harness.workers.zygote.loading import Loaded, load, prepare

ROUNDS = 5
LENGTH = 4
"""Repetitions of the cases in each round: they amortise the waits of the first and the last case."""
FRESH_CASES = 24
"""Cases that run in a process each."""
COLD_S = 90.0
LARGE_CASES = 60
LARGE_PROCESSES = 4
"""As many as a search has on a GPU with 16 cores."""
ROUND = "round"
"""The first word of the line that a child prints after each round."""


def rates(bench: Bench) -> None:
    """Measure warm cases with and without isolation; both leave out paired runs."""
    for sizes in Sizes:
        _warm_rates(bench, sizes)
    _fresh_processes(bench)


def _warm_rates(bench: Bench, sizes: Sizes) -> None:
    cases = bench.small_cases(sizes)
    bench.compile_ahead([case for case, _ in cases])
    print(f"\n{len(cases)} small cases of {SUITE} ({LIBRARY}), {sizes.value}, all else drawn, kernels compiled")
    with bench.pool() as pool, _child_rounds(bench, "inside", sizes) as run_round:
        turns = [(flow(pool, cases * LENGTH, KEEP_BUSY), *run_round()) for _ in range(2 + ROUNDS)]
        last = [pool.run(case) for case, _ in cases]
    isolated, alone, parts = zip(*turns[2:], strict=True)  # the first two rounds warm up
    shares = sorted(100 * in_one / in_worker for in_one, in_worker in zip(alone, isolated, strict=True))
    print(f"  ms a case in the worker:      {_split(last)}")
    print(f"  ms a case in one process:     {parts[-1]}")
    print(f"  in one reused worker: {_spread(isolated)}")
    print(f"  in one process:       {_spread(alone)}")
    print(f"  alternately, isolated reaches {median(shares):.0f} % of it ({shares[0]:.0f} to {shares[-1]:.0f} %)")


def _spread(times: Sequence[float]) -> str:
    return f"{1 / median(times):6.0f} cases/s ({1e3 * min(times):.2f} to {1e3 * max(times):.2f} ms)"


def _split(runs: Sequence[Run]) -> str:
    """Return milliseconds a case by phase."""
    parts: Counter[str] = Counter()
    for run in runs:
        parts.update({part: 1e3 * seconds / len(runs) for part, seconds in run.seconds.items()})
    return ", ".join(f"{part} {ms:.2f}" for part, ms in parts.most_common())


def _fresh_processes(bench: Bench) -> None:
    """Measure cases in a forked process each, and in a fresh interpreter."""
    cases = [case for case, _ in bench.small_cases(Sizes.ANY)][:FRESH_CASES]
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
    with _child_rounds(bench, "fresh", Sizes.ANY) as run_round:
        run_round()
    print(f"  a fresh python:       {time.perf_counter() - began:6.2f} s a case")


def trivial(bench: Bench) -> None:
    """Measure round trips to a worker that launches a kernel of 64 elements."""
    case = Case(op=f"{FAULTS}:good", dims={"T": 1}, dtype=load_suite(FAULTS)[0].dtypes[0], device=bench.device, seed=1)

    def spec(device: DeviceProfile) -> WorkerSpec:
        return WorkerSpec(
            device=device, suites=(FAULTS,), scratch=str(bench.folder), engine="ci.launch_engine:LaunchEngine"
        )

    with Pool(spec, 1, 60.0, PoolOptions(gpus=GpuAssigner(bench.gpus[:1], print))) as pool:
        for _ in range(200):
            pool.run(case)
        began = time.perf_counter()
        for _ in range(3000):
            pool.run(case)
        print(f"\nRound trips to a worker with a trivial launch: {3000 / (time.perf_counter() - began):.0f} a second")


def sanitized(bench: Bench) -> None:
    """Measure cases in a warm worker under memcheck."""
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
    """Measure warm cases on one GPU and on more, alternately, without paired runs."""
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
        ratios = sorted(single / several for single, several in zip(times[1], times[count], strict=True))
        parent_ms = 1e3 * parent_s[count] / (ROUNDS * LENGTH * count * len(cases))
        print(
            f"\n{count} GPUs: {1 / median(times[count]):.0f} whole cases a second, {median(ratios):.2f} times one "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f}); {parent_ms:.2f} ms of CPU a case in the parent"
        )


def cold(bench: Bench) -> None:
    """Measure a search with empty caches, in which the other cores compile ahead for the GPU."""
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
            statistics = session.campaign(options.plan, Silent()).run()
            waiting = session.gpu_wait_share or 0.0
    print(
        f"\nWith empty caches: {statistics.cases} cases with their paired runs in {statistics.seconds:.0f} s, "
        f"{statistics.cases / statistics.seconds:.0f} a second; "
        f"the GPU waited for the compiler {waiting:.0%} of the time"
    )


def large(bench: Bench) -> None:
    """Measure cases of realistic sizes with everything: inputs, kernels, definition and comparison."""
    for name, case, op in bench.large_cases():
        cases = [(replace(case, seed=seed), op) for seed in range(1, 8 * LARGE_CASES, 2)][:LARGE_CASES]
        for processes in (1, LARGE_PROCESSES):
            with bench.pool(suite=op.suite, processes=processes, limit_s=120.0) as pool:
                flow(pool, cases[: 2 * processes], processes)  # the first cases compile
                took = flow(pool, cases, KEEP_BUSY * processes)
                run = pool.run(cases[0][0])
            print(f"\n{name}, {processes} processes: {1 / took:.1f} whole cases a second; {run.ending}")
            print(f"  ms a case: {_split([run])}")


PARTS = {part.__name__: part for part in (rates, trivial, sanitized, faults, scaling, cold, large)}


RunRound = Callable[[], tuple[float, str]]
"""Runs one round in the child; returns seconds a case and their split by phase."""


@contextmanager
def _child_rounds(bench: Bench, what: str, sizes: Sizes) -> Generator[RunRound]:
    """Run a loop of this script in a child, which may start CUDA."""
    environment = {**os.environ, **dict(worker_environment(bench.gpus[0]))}
    command = [sys.executable, __file__, what, "--folder", str(bench.folder), "--sizes", sizes.name]
    command += ["--library", bench.library]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        requests, replies = process.stdin, process.stdout
        assert requests is not None
        assert replies is not None

        def run_round() -> tuple[float, str]:
            print("another", file=requests, flush=True)
            reply = next((line for line in replies if line.startswith(ROUND)), None)
            assert reply is not None, f"the child ended with status {process.wait()}"
            _, seconds, parts = reply.split(maxsplit=2)
            return float(seconds), parts.strip()

        yield run_round


def inside(bench: Bench, cases: Sequence[tuple[Case, Op]]) -> None:
    """Run one round in this process for each line on standard input."""
    spec = replace(bench.spec, environment=worker_environment(bench.gpus[0]))
    loaded = load(spec, prepare(spec.engine))
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
