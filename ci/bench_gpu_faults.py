"""The `faults` part of `make bench-gpu`: planted faults among good cases, each of which must get its own verdict."""

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, repeat
from statistics import median

from ci.bench_gpu_machine import Bench
from ci.fault_suite.faults import EXPECTED, NO_MEMORY, REPORTING_TOOL
from harness.engines.cuda.gpus.canary import Healthy, run_canary
from harness.engines.cuda.gpus.health import GpuHealthMonitor
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.gpus.symptoms import GpuSnapshot, Lost, changes
from harness.engines.cuda.sanitizers.sanitizer_command import SLOWDOWN
from harness.model.case import Case
from harness.model.op import Op
from harness.model.run import Completed, OutOfMemory, Run
from harness.search.judge import Judge
from harness.suite import load_suite

FAULTS = "ci/fault_suite/faults.py"
GOOD_CASES, FAULTS_OF_KIND = 1000, 30
ROWS = range(1, 9)
PROCESSES = 4
SANITIZER_PROCESSES = 8
"""More than `PROCESSES`: each report ends a compute-sanitizer, whose restart takes most of the time."""
HANG_LIMIT_S = 3.0
HOST_FAULTS = frozenset({"host_deadlocks", "crashes", "asks_too_much_memory"})
"""Kinds of faults that launch no kernel of their own."""


def faults(bench: Bench) -> None:
    """Run planted faults among good cases, check every verdict, and check the GPU afterwards."""
    sanitized = [
        Round(
            tool=tool,
            kinds={kind: ("compute-sanitizer", tool) for kind, by in REPORTING_TOOL.items() if by == tool},
            good_cases=GOOD_CASES // 10,
        )
        for tool in sorted(set(REPORTING_TOOL.values()))
    ]
    ops = [op for op in load_suite(FAULTS) if op.name not in HOST_FAULTS]
    # Compile first: the measured times leave compilation out.
    bench.compile_ahead([_case(bench, op, rows, seed=1) for op in ops for rows in ROWS], FAULTS)
    plain = Round(
        tool="",
        kinds={**EXPECTED, NO_MEMORY: None},
        good_cases=GOOD_CASES - sum(one.good_cases for one in sanitized),
    )
    gpu = bench.gpus[0]
    with GpuHealthMonitor() as monitor:
        before = monitor.snapshot(gpu.uuid, ours=frozenset())
        for planned in (plain, *sanitized):
            _run_round(bench, planned)
            print(f"  the GPU afterwards     {_gpu_state(gpu, monitor, before)}")


def _case(bench: Bench, op: Op, rows: int, seed: int) -> Case:
    return Case(op=op.id, dims={"T": rows}, dtype=op.dtypes[0], device=bench.device, seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Faults among good cases in one pool."""

    tool: str
    """The tool of compute-sanitizer; empty for none."""
    kinds: dict[str, tuple[str, str] | None]
    """By op, the oracle that must fail and a part of the place in its signature; None if no oracle may fail."""
    good_cases: int

    def __str__(self) -> str:
        tool = f" under {self.tool}" if self.tool else ""
        return f"{FAULTS_OF_KIND} faults of {len(self.kinds)} kinds among {self.good_cases} good cases{tool}"

    def order(self) -> list[str]:
        """Return the op names in the order in which the cases run."""
        names = ["good"] * self.good_cases
        for index, kind in enumerate(chain.from_iterable(repeat(kind, FAULTS_OF_KIND) for kind in self.kinds)):
            names.insert((index * 7919) % len(names), kind)  # a large prime spreads the faults
        return names


def _run_round(bench: Bench, planned: Round) -> None:
    ops = {op.name: op for op in load_suite(FAULTS)}
    judge = Judge()
    wrong: Counter[str] = Counter()
    seconds: dict[str, list[float]] = {kind: [] for kind in planned.kinds}

    def run_one(numbered: tuple[int, str]) -> None:
        number, kind = numbered
        repeats = kind == "gives_other_bits"
        seed = 8 * number + (not repeats)  # the engine repeats seeds that are multiples of 8
        rows = ROWS[-1] if repeats else ROWS[number % len(ROWS)]  # few rows may repeat bit for bit by chance
        began = time.perf_counter()
        run = pool.run(_case(bench, ops[kind], rows, seed))
        took_s = time.perf_counter() - began
        places = [(fail.signature.oracle, fail.signature.place) for fail in judge.judge(ops[kind], run, {}).fails]
        if not _is_right(run, places, planned.kinds.get(kind), is_good=kind == "good"):
            wrong[kind] += 1
            print(f"  wrong: {kind}: {run.ending!s:.300} {places}")
        if kind != "good":
            seconds[kind].append(took_s)

    limit_s = HANG_LIMIT_S * (SLOWDOWN if planned.tool else 1)
    processes = SANITIZER_PROCESSES if planned.tool else PROCESSES
    with (
        bench.pool(FAULTS, processes=processes, limit_s=limit_s, tool=planned.tool) as pool,
        ThreadPoolExecutor(processes) as threads,
    ):
        list(threads.map(run_one, [(0, "good")] * processes))  # start the workers first
        began = time.perf_counter()
        list(threads.map(run_one, enumerate(planned.order())))
        took_s = time.perf_counter() - began
    print(f"\n{planned}, {processes} processes, limit {limit_s:g} s: {took_s:.0f} s")
    for kind, times in seconds.items():
        print(
            f"  {kind:22} {FAULTS_OF_KIND - wrong[kind]:3} of {FAULTS_OF_KIND} reported right; "
            f"{median(times):.2f} s each, {max(times):.2f} s at most"
        )
    print(f"  good                   {planned.good_cases - wrong['good']} of {planned.good_cases} pass")


def _gpu_state(gpu: RealGpu, monitor: GpuHealthMonitor, before: GpuSnapshot | Lost) -> str:
    """Return whether the GPU still computes, and what changed since before the faults."""
    canary = run_canary(gpu)
    parts = ["the canary passes" if isinstance(canary, Healthy) else str(canary)]
    match before, monitor.snapshot(gpu.uuid, ours=frozenset()):
        case GpuSnapshot(), GpuSnapshot() as after:
            parts += [str(change) for change in changes(before, after)] or ["NVML reports nothing worse"]
            parts.append(f"{len(after.processes)} processes on it, {len(before.processes)} before")
            if before.memory_used_bytes is not None and after.memory_used_bytes is not None:
                more = after.memory_used_bytes - before.memory_used_bytes
                parts.append(f"{more / 2**20:.0f} MiB more in use than before")
        case lost:
            parts += [str(one) for one in lost if isinstance(one, Lost)]
    return "; ".join(parts)


def _is_right(run: Run, places: Sequence[tuple[str, str]], expected: tuple[str, str] | None, *, is_good: bool) -> bool:
    if is_good:
        return not places and isinstance(run.ending, Completed)
    if expected is None:
        return not places and isinstance(run.ending, OutOfMemory)
    oracle, part = expected
    return bool(places) and all(found == oracle and part in place for found, place in places)
