"""The faults of `make bench-gpu`: planted ones of each kind among good cases, each of which must be told apart."""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, repeat
from statistics import median

from ci.bench_gpu_machine import ROOT, Bench
from harness.cuda.gpus.canary import Healthy, sing
from harness.cuda.gpus.health import GpuHealthMonitor
from harness.cuda.gpus.inventory import RealGpu
from harness.cuda.gpus.symptoms import GpuSnapshot, Lost, changes
from harness.cuda.sanitizers.sanitizer_command import SLOWDOWN
from harness.model.case import Case
from harness.model.op import Op
from harness.model.run import Completed, OutOfMemory, Run
from harness.search.judge import Judge
from harness.suite import load_suite

FAULTS = "tests/cuda/faults.py"
GOOD, EACH = 1000, 30
ROWS = range(1, 9)
PROCESSES = 4
TOOLS_PROCESSES = 8
"""Each report costs a compute-sanitizer, which takes longer to begin than all else together."""
HANG_LIMIT_S = 3.0
HOST_ALONE = frozenset({"host_deadlocks", "crashes", "asks_too_much_memory"})
"""The kinds that need no kernel of their own."""


def faults(bench: Bench) -> None:
    """Planted faults among good cases: each must be told apart, no good one lost or blamed, the GPU be clean after."""
    sys.path.insert(0, str(ROOT))
    from tests.cuda.faults import EXPECTED, NO_MEMORY, UNDER  # noqa: PLC0415 - of the tests, not of the harness

    under = [
        Round(tool, {kind: ("compute-sanitizer", tool) for kind, by in UNDER.items() if by == tool}, GOOD // 10)
        for tool in sorted(set(UNDER.values()))
    ]
    ops = [op for op in load_suite(FAULTS) if op.name not in HOST_ALONE]
    # What a kernel takes to compile is no fault's cost.
    bench.compile_ahead([_case(bench, op, rows, seed=1) for op in ops for rows in ROWS], FAULTS)
    plain = Round("", {**EXPECTED, NO_MEMORY: None}, GOOD - sum(one.good for one in under))
    gpu = bench.gpus[0]
    with GpuHealthMonitor() as watch:
        before = watch.snapshot(gpu.uuid, ours=frozenset())
        for one in (plain, *under):
            _among(bench, one)
            print(f"  the GPU afterwards     {_state(gpu, watch, before)}")


def _case(bench: Bench, op: Op, rows: int, seed: int) -> Case:
    return Case(op=op.id, dims={"T": rows}, dtype=op.dtypes[0], device=bench.device, seed=seed)


@dataclass(frozen=True, slots=True)
class Round:
    """Faults among good cases in one pool."""

    tool: str
    """Of compute-sanitizer; none where empty."""
    kinds: dict[str, tuple[str, str] | None]
    """By op, the oracle that must fail and a part of the place; None where nobody is to be blamed."""
    good: int


def _among(bench: Bench, planned: Round) -> None:
    ops = {op.name: op for op in load_suite(FAULTS)}
    order = ["good"] * planned.good
    for index, kind in enumerate(chain.from_iterable(repeat(kind, EACH) for kind in planned.kinds)):
        order.insert((index * 7919) % len(order), kind)
    judge = Judge()
    wrong: Counter[str] = Counter()
    cost: dict[str, list[float]] = {kind: [] for kind in planned.kinds}

    def one(numbered: tuple[int, str]) -> None:
        number, kind = numbered
        op = ops[kind]
        seed = 8 * number + (kind != "gives_other_bits")  # multiples of eight are run a second time
        rows = ROWS[-1] if kind == "gives_other_bits" else ROWS[number % len(ROWS)]  # two rows may have the same bits
        began = time.perf_counter()
        run = pool.run(_case(bench, op, rows, seed))
        took = time.perf_counter() - began
        places = [(fail.signature.oracle, fail.signature.place) for fail in judge.judge(op, run, {}).fails]
        if not _is_right(run, places, planned.kinds.get(kind), is_good=kind == "good"):
            wrong[kind] += 1
            print(f"  wrong: {kind}: {run.ending!s:.300} {places}")
        if kind != "good":
            cost[kind].append(took)

    limit_s = HANG_LIMIT_S * (SLOWDOWN if planned.tool else 1)
    processes = TOOLS_PROCESSES if planned.tool else PROCESSES
    with (
        bench.pool(FAULTS, processes=processes, limit_s=limit_s, tool=planned.tool) as pool,
        ThreadPoolExecutor(processes) as threads,
    ):
        list(threads.map(one, [(0, "good")] * processes))  # what a process takes to begin is no fault's cost
        began = time.perf_counter()
        list(threads.map(one, enumerate(order)))
        took = time.perf_counter() - began
    tool = f" under {planned.tool}" if planned.tool else ""
    print(
        f"\n{EACH} faults of {len(planned.kinds)} kinds among {planned.good} good cases{tool}, {processes} processes, "
        f"limit {limit_s:g} s: {took:.0f} s"
    )
    for kind, times in cost.items():
        told = EACH - wrong[kind]
        print(f"  {kind:22} {told:3} of {EACH} told apart; {median(times):.2f} s each, {max(times):.2f} s at most")
    print(f"  good                   {planned.good - wrong['good']} of {planned.good} judged right")


def _state(gpu: RealGpu, watch: GpuHealthMonitor, before: GpuSnapshot | Lost) -> str:
    """Whether the GPU still computes, and what is not as it was before the faults."""
    canary = sing(gpu)
    said = ["the canary passes" if isinstance(canary, Healthy) else str(canary)]
    match before, watch.snapshot(gpu.uuid, ours=frozenset()):
        case GpuSnapshot(), GpuSnapshot() as after:
            said += [str(change) for change in changes(before, after)] or ["NVML tells of nothing that got worse"]
            said.append(f"{len(after.processes)} processes on it, {len(before.processes)} before")
            if before.memory_used_bytes is not None and after.memory_used_bytes is not None:
                more = after.memory_used_bytes - before.memory_used_bytes
                said.append(f"{more / 2**20:.0f} MiB more in use than before")
        case lost:
            said += [str(one) for one in lost if isinstance(one, Lost)]
    return "; ".join(said)


def _is_right(run: Run, places: Sequence[tuple[str, str]], expected: tuple[str, str] | None, *, is_good: bool) -> bool:
    if is_good:
        return not places and isinstance(run.ending, Completed)
    if expected is None:
        return not places and isinstance(run.ending, OutOfMemory)
    oracle, part = expected
    return bool(places) and all(found == oracle and part in place for found, place in places)
