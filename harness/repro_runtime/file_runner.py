"""Where watched files run: one process that wears the GPU, kept warm for as many files as are asked about."""

from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import TracebackType
from typing import Self

from harness.model.device import DeviceProfile
from harness.oracles import registry
from harness.oracles.base import Alone, Oracle
from harness.repro_runtime.request import SUITE, Asked
from harness.search.judge import Examination, Judge
from harness.search.options import TIME_LIMIT_S
from harness.suite import load_suite
from harness.workers.background_compiler import BackgroundCompiler
from harness.workers.pool import Pool
from harness.workers.spec import BUILDS, WorkerSpec

ENGINE = "harness.repro_runtime.engine:FileEngine"
NEEDS_RESOURCES = frozenset({"resources"})
"""Oracles that judge from what the whole compiler pipeline says."""


class FileRunner:
    """A context manager: no process and no file is left when it is."""

    def __init__(
        self, asked: Asked, *, library_paths: tuple[str, ...] = (), time_limit_s: float = TIME_LIMIT_S
    ) -> None:
        """`library_paths` are put in front of `sys.path`, in the child alone."""
        self.asked = asked
        self._library_paths = library_paths
        self._scratch = mkdtemp(prefix="harness-watch-")
        self._op = load_suite(SUITE)[0]
        self._pool = Pool(self._spec_of, 1, time_limit_s)
        self._compiler: BackgroundCompiler | None = None
        oracle = registry.find(asked.oracle)
        self._judge = Judge(oracles=(oracle,))
        self._strict = Judge(oracles=tuple({one.name: one for one in (oracle, *_alone())}.values()))
        if asked.oracle in NEEDS_RESOURCES:
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
        """Run the file in a fresh process, and judge it by the oracle that is asked."""
        found = self._judge.examine(self._op, self.asked.case(file), self._pool.run_alone)
        if self._compiler is None:
            return found
        self._compiler.settle()
        return self._judge.judge(self._op, found.run, {})

    def glance(self, file: Path) -> Examination:
        """Run the file in a process that may have run others, and judge it by every oracle that needs no other run."""
        return self._strict.judge(self._op, self._pool.run(self.asked.case(file)), {})

    def _spec_of(self, device: DeviceProfile) -> WorkerSpec:
        return WorkerSpec(
            device=device,
            suites=(SUITE,),
            scratch=self._scratch,
            library_paths=self._library_paths,
            engine=ENGINE,
        )


def _alone() -> tuple[Oracle, ...]:
    return tuple(one for one in registry.ALL if isinstance(one, Alone) and one.name not in NEEDS_RESOURCES)
