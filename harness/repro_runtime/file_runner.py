"""The runner of reproducers: one warm process that emulates the GPU and runs one file after another."""

from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import TracebackType
from typing import Self

from harness.compiling.background_compiler import BackgroundCompiler
from harness.model.device import DeviceProfile
from harness.model.plan import TIME_LIMIT_S
from harness.oracles import registry
from harness.oracles.base import Oracle, SingleRunOracle
from harness.oracles.traits import Need
from harness.repro_runtime.request import SUITE, CheckRequest
from harness.search.judge import Examination, Judge
from harness.suite import load_suite
from harness.workers.pool import Pool
from harness.workers.spec import BUILDS, WorkerSpec

ENGINE = "harness.repro_runtime.engine:FileEngine"


class FileRunner:
    """A context manager that leaves no process and no file behind."""

    def __init__(
        self, request: CheckRequest, *, library_paths: tuple[str, ...] = (), time_limit_s: float = TIME_LIMIT_S
    ) -> None:
        """`library_paths` come first in `sys.path` of the child."""
        self.request = request
        self._library_paths = library_paths
        self._scratch = mkdtemp(prefix="harness-watch-")
        self._op = load_suite(SUITE)[0]
        self._pool = Pool(self._spec_of, 1, time_limit_s)
        self._compiler: BackgroundCompiler | None = None
        oracle = registry.find(request.oracle)
        self._judge = Judge(oracles=(oracle,))
        self._strict = Judge(oracles=tuple({asked.name: asked for asked in (oracle, *_single_run_oracles())}.values()))
        if Need.RESOURCES in oracle.traits.needs:
            self._compiler = BackgroundCompiler(Path(self._scratch, BUILDS))
            self._judge = Judge(oracles=(oracle,), resources=self._compiler)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._compiler is not None:
            self._compiler.close()
        self._pool.close()
        rmtree(self._scratch, ignore_errors=True)

    def examine(self, file: Path) -> Examination:
        """Run the file in a fresh process, and check it with the requested oracle."""
        examination = self._judge.examine(self._op, self.request.case(file), self._pool.run_alone)
        if self._compiler is None:
            return examination
        return self._judge.judge_when_compiled(self._op, examination.run, self._pool.run_alone)

    def check(self, file: Path) -> Examination:
        """Run the file in a process that may have run others, and check it with every oracle that needs one run."""
        return self._strict.judge(self._op, self._pool.run(self.request.case(file)), {})

    def _spec_of(self, device: DeviceProfile) -> WorkerSpec:
        return WorkerSpec(
            device=device,
            suites=(SUITE,),
            scratch=self._scratch,
            library_paths=self._library_paths,
            engine=ENGINE,
        )


def _single_run_oracles() -> tuple[Oracle, ...]:
    return tuple(
        oracle
        for oracle in registry.ALL
        if isinstance(oracle, SingleRunOracle) and Need.RESOURCES not in oracle.traits.needs
    )
