"""Parts that the GPU benchmarks share: the machine, its pools, small cases and a loop like a campaign's."""

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from enum import Enum
from itertools import islice
from pathlib import Path
from queue import SimpleQueue

from harness import libraries
from harness.engines.cuda.emulation import compiler_environment
from harness.engines.cuda.gpus.inventory import RealGpu, profile_of
from harness.engines.cuda.sanitizers.sanitizer_command import sanitizing
from harness.model.case import Case, DType, Scale
from harness.model.engine_traits import COMPILE_AHEAD, CUDA
from harness.model.op import Dim, Op
from harness.model.run import Run
from harness.search.judge import Judge
from harness.search.launch_feedback import LaunchFeedback
from harness.search.strategies import Batch
from harness.settings import Settings
from harness.suite import load_suite
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import Isolation, WorkerSpec

ROOT = Path(__file__).resolve().parent.parent
SUITE, LIBRARY = "suites/fla/norm.py", "fla-core==0.6.0"
ATTENTION = "suites/fla/gla.py"
SETTINGS = Settings.from_environment(os.environ)
SMALL = 64
"""The largest dim of a small case."""
CASES = 40


class Silent:
    """A campaign observer that prints nothing."""

    def tick(self, statistics: object, trying: object) -> None:
        """Ignore the passing of time."""

    def sighted(self, fail: object, trial: object) -> None:
        """Ignore a failure."""

    def shrinking(self, fail: object, number: int, total: int) -> None:
        """Ignore a shrinking step."""

    def trying(self, case: object) -> None:
        """Ignore the next case."""


class Sizes(Enum):
    """The dims of the small cases."""

    ANY = f"T, D and G up to {SMALL}"
    ONE = f"T = D = {SMALL}"


class Bench:
    """The GPUs of this machine, a library under test and a folder for compiled kernels."""

    def __init__(self, gpus: Sequence[RealGpu], folder: Path, library: str) -> None:
        self.gpus = tuple(gpus)
        self.device = profile_of(gpus[0])
        self.folder = folder
        self.library = library
        self.spec = WorkerSpec(
            device=self.device,
            suites=(SUITE,),
            scratch=str(folder),
            library_paths=tuple(map(str, libraries.resolve([library], cache=SETTINGS.cache))),
            engine=CUDA.factory,
        )
        """The spec of every worker; each pool replaces a field or two."""

    def pool(  # noqa: PLR0913 - each is one thing that a benchmark varies
        self,
        suite: str = SUITE,
        *,
        processes: int = 1,
        isolation: Isolation = Isolation.WORKER,
        limit_s: float = 60.0,
        gpus: int = 1,
        tool: str = "",
    ) -> Pool:
        """Open a pool on the first `gpus` GPUs."""
        spec = replace(self.spec, suites=(suite,), sanitizing=sanitizing(tool, SETTINGS) if tool else None)
        options = PoolOptions(isolation=isolation, gpus=GpuAssigner(self.gpus[:gpus], print))
        return Pool(lambda device: replace(spec, device=device), processes, limit_s, options)

    def compile_ahead(self, cases: Sequence[Case], suite: str = SUITE) -> None:
        """Compile the kernels of these cases for the first GPU, on all cores, without launching them."""
        spec = replace(
            self.spec, suites=(suite,), engine=COMPILE_AHEAD.factory, environment=compiler_environment(self.gpus[0])
        )
        with Pool(lambda device: replace(spec, device=device), len(os.sched_getaffinity(0)), 300.0) as pool:
            for compiled in [pool.submit(case) for case in cases]:
                compiled.result()

    def small_cases(self, sizes: Sizes) -> list[tuple[Case, Op]]:
        """Return `CASES` cases of the norm suite with dims of at most `SMALL`; all other choices are drawn."""
        found: dict[str, tuple[Case, Op]] = {}
        for op in load_suite(SUITE):
            drawn = op
            if sizes is Sizes.ONE:
                if "G" in op.dims:
                    continue
                drawn = replace(op, dims={name: Dim(low=SMALL, high=SMALL) for name in op.dims})
            for case in Batch(op=drawn, device=self.device, feedback=LaunchFeedback(), seed=3, size=400).draw():
                if case.scale is Scale.USUAL and max(case.dims.values()) <= SMALL and case.configs == {}:
                    found[case.digest] = (case, op)
        return list(found.values())[:: max(1, len(found) // CASES)][:CASES]

    def large_cases(self) -> Iterator[tuple[str, Case, Op]]:
        """Yield a norm of many wide rows, and attention over a long sequence, each with its name."""
        rows = {"T": 24_000, "D": 4_096}
        heads = {"B": 1, "T": 8_192, "H": 4, "K": 64, "V": 64}
        for suite, name, dims in ((SUITE, "layer_norm", rows), (ATTENTION, "chunk_gla", heads)):
            op = next(op for op in load_suite(suite) if op.name == name)
            options = {option: values[0] for option, values in op.options.items()}
            absent = ("initial_state",) if "initial_state" in op.inputs else ()
            sizes = ", ".join(f"{dim} = {size:,}" for dim, size in dims.items())
            case = Case(
                op=op.id, dims=dims, dtype=DType.BF16, device=self.device, options=options, absent=absent, seed=1
            )
            yield f"{name}, {sizes}", case, op


def flow(pool: Pool, cases: Sequence[tuple[Case, Op]], at_once: int) -> float:
    """Return seconds a case, with `at_once` cases submitted at any time and each judged when its run comes back."""
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
