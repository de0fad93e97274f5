"""The cost of isolation: the same cases in this process and in one worker, alternately.

It prints the ratio for cases of several lengths, and round trips and forks a second.  It needs no GPU, torch or Triton.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from harness import catalogue  # noqa: E402 — after the path that finds it
from harness.model.case import Case, DType  # noqa: E402
from harness.model.device import DeviceProfile  # noqa: E402
from harness.model.engine_traits import EngineTraits  # noqa: E402
from harness.model.op import Op  # noqa: E402
from harness.model.paired_run import PairedRun, PairedRunRequest  # noqa: E402
from harness.model.run import Completed, Run  # noqa: E402
from harness.suite import load_suite  # noqa: E402
from harness.workers.pool import Pool  # noqa: E402
from harness.workers.spec import WorkerSpec  # noqa: E402

SUITE = str(Path(__file__).with_name("isolation_suite.py"))
DEVICE = catalogue.find("b200")
ROUNDS = 5
CASES = 100
ROWS = (10, 100, 500)
"""How long a case works: thousands of additions."""


class CallEngine:
    """Calls the op with the case's dims.  It emulates no device and compares nothing."""

    traits = EngineTraits(name="call")

    def prepare(self) -> None:
        pass

    def emulate(self, device: DeviceProfile) -> None:
        del device

    def obstacle(self) -> str:
        return ""

    def begin(self) -> str:
        return ""

    def run(self, op: Op, case: Case) -> Run:
        result = op.call(**case.dims)
        return Run(case=case, engine=self.traits.name, ending=Completed(), seconds={"result": float(result)})

    def run_paired(self, op: Op, request: PairedRunRequest) -> Run:
        del op
        return PairedRun(case=request.case, engine=self.traits.name, ending=Completed(), sketches=())


def main() -> None:
    """Print the figures."""
    engine = CallEngine()
    ops = {op.name: op for op in load_suite(SUITE)}

    def case(name: str, rows: int = 3) -> Case:
        return Case(op=ops[name].id, dims={"rows": rows}, dtype=DType.FP32, device=DEVICE)

    with tempfile.TemporaryDirectory() as scratch, Pool(_specs(scratch), processes=1, time_limit_s=60) as pool:
        pool.prepare(DEVICE)
        for rows in ROWS:
            here, there = alternately(lambda case: engine.run(ops["works"], case), pool.run, case("works", rows))
            print(f"case of {here * 1e3:.2f} ms: {there * 1e3:.2f} ms in a worker, ratio {there / here:.2f}")
        trip_s = median(seconds(pool.run, case("returns_at_once")) for _ in range(ROUNDS))
        print(f"round trips: {1 / trip_s:.0f} a second ({trip_s * 1e6:.0f} µs each)")
        fork_s = median(seconds(pool.run_alone, case("returns_at_once")) for _ in range(ROUNDS))
        print(f"cases in a process each: {1 / fork_s:.0f} a second ({fork_s * 1e3:.1f} ms each)")


def _specs(scratch: str) -> Callable[[DeviceProfile], WorkerSpec]:
    def spec(device: DeviceProfile) -> WorkerSpec:
        return WorkerSpec(
            device=device,
            suites=(SUITE,),
            scratch=scratch,
            engine="ci.bench_isolation:CallEngine",
            memory_limit_bytes=1 << 28,
        )

    return spec


def alternately(here: Callable[[Case], object], there: Callable[[Case], object], work: Case) -> tuple[float, float]:
    """Return median seconds a case, here and there; alternating spreads the machine's load over both."""
    pairs = [(seconds(here, work), seconds(there, work)) for _ in range(ROUNDS)]
    return median(first for first, _ in pairs), median(second for _, second in pairs)


def seconds(run: Callable[[Case], object], work: Case) -> float:
    """Return mean seconds a case."""
    started = perf_counter()
    for _ in range(CASES):
        run(work)
    return (perf_counter() - started) / CASES


if __name__ == "__main__":
    main()
