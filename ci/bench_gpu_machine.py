"""What the benches of real GPUs share: the machine, its pools, small cases, and cases run as a campaign runs them."""

import os
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from enum import Enum
from itertools import islice
from pathlib import Path
from queue import SimpleQueue

from harness import libraries
from harness.cuda.emulation import compiling_for
from harness.cuda.gpus.inventory import RealGpu, profile_of
from harness.cuda.sanitizers.sanitizer_command import sanitizing
from harness.model.case import Case, Scale
from harness.model.op import Dim, Op
from harness.model.run import Run
from harness.search.judge import Judge
from harness.search.launch_feedback import Hints
from harness.search.options import AHEAD, CUDA
from harness.search.strategies import Batch
from harness.suite import load_suite
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.pool import Pool
from harness.workers.spec import Isolation, WorkerSpec

ROOT = Path(__file__).resolve().parent.parent
SUITE, LIBRARY = "suites/fla/norm.py", "fla-core==0.6.0"
SMALL = 64
"""Elements of a dim of a small case, at most."""
CASES = 40


class Silent:
    """Watches a campaign and says nothing."""

    def tick(self, tally: object, trying: object) -> None:
        """Some time has passed."""

    def sighted(self, fail: object, trial: object) -> None:
        """A failure was seen."""

    def shrinking(self, fail: object, number: int, total: int) -> None:
        """A failure is made small."""

    def trying(self, case: object) -> None:
        """A case runs next."""


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
        self.spec = WorkerSpec(
            device=self.device,
            suites=(SUITE,),
            scratch=str(folder),
            library_paths=tuple(map(str, libraries.resolve([library]))),
            engine=CUDA,
        )
        """Of what runs cases; pools differ from it in a thing or two."""

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
        spec = replace(self.spec, suites=(suite,), sanitizing=sanitizing(tool) if tool else None)
        places = GpuAssigner(self.gpus[:gpus], print)
        return Pool(lambda device: replace(spec, device=device), processes, limit_s, isolation, places)

    def compile_ahead(self, cases: Sequence[Case], suite: str = SUITE) -> None:
        """Have the kernels of these cases compiled for the first GPU, on all cores, and none launched."""
        spec = replace(self.spec, suites=(suite,), engine=AHEAD, environment=compiling_for(self.gpus[0]))
        with Pool(lambda device: replace(spec, device=device), len(os.sched_getaffinity(0)), 300.0) as pool:
            for compiled in [pool.submit(case) for case in cases]:
                compiled.result()

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


def flow(pool: Pool, cases: Sequence[tuple[Case, Op]], at_once: int) -> float:
    """Seconds a case, as in a campaign: so many are submitted at any time, and each is judged when it comes back."""
    judge = Judge()
    done = SimpleQueue[Future[Run]]()
    ops: dict[Future[Run], Op] = {}
    began = time.perf_counter()
    coming = iter(cases)
    for _ in cases:
        for case, op in islice(coming, at_once - len(ops)):
            future = pool.submit(case)
            ops[future] = op
            future.add_done_callback(done.put)
        future = done.get()
        judge.judge(ops.pop(future), future.result(), {})
    return (time.perf_counter() - began) / len(cases)
