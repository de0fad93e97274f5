"""A session: the processes and GPUs of one search, its judge, and the campaigns and triage that use them.

The command line and the pytest plugin both work through a session.
"""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Protocol, Self

from harness import libraries
from harness.cuda import coredump
from harness.cuda.emulation import compiler_environment
from harness.cuda.gpus.inventory import RealGpu
from harness.cuda.sanitizers.instrumentation import Instrumenting
from harness.cuda.sanitizers.sanitizer_command import SLOWDOWN, Sanitizing
from harness.errors import UsageError
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.finding import Finding
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.search.campaign import Campaign, CampaignWorkers, Observer
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.engine_choice import COMPILE_AHEAD_FACTORY, EngineName
from harness.search.judge import Judge
from harness.search.leasing import leased
from harness.search.options import Options
from harness.search.plan import Plan
from harness.search.triage import Triage
from harness.workers.background_compiler import BackgroundCompiler
from harness.workers.compile_ahead import CompileAhead
from harness.workers.folder import left_behind
from harness.workers.fork_servers.shared_zygotes import SharedZygotes
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import BUILDS, LOAD_LIMIT_S, WorkerSpec

SHRINKING_S = 600.0
"""Time to shrink all findings of one search together."""
FOLDER = Path(".harness")
"""Everything that is kept between searches, such as Triton's cache and findings."""


class SearchObserver(Observer, Protocol):
    """Receives the progress of a whole search."""

    def shrinking(self, fail: Fail, number: int, total: int, /) -> None:
        """Triage begins with this failure, the `number`th of `total`."""
        ...

    def trying(self, case: Case, /) -> None:
        """This case runs next."""
        ...


class Session:
    """A context manager that owns the processes of a search; it ends them all."""

    def __init__(
        self,
        options: Options,
        notify: Callable[[str], None] = lambda _: None,
        gpus: tuple[RealGpu, ...] = (),
        shared_zygotes: SharedZygotes | None = None,
    ) -> None:
        """Install the libraries under test.  Lease GPUs if the engine needs them and `gpus` is empty.

        `notify` receives messages about GPUs and about cases that a killed session left behind.  `shared_zygotes`
        outlive the session; each pool has its own if None.

        Raises:
            LibraryError: a library cannot be installed.
            MissingPart, GpuUnavailable: the machine has no GPU for cases, or none is free.
            UsageError: a GPU cannot run the kernels that a sanitizer instruments.
        """
        self.options = options
        self.library_paths = libraries.resolve(options.libraries, cache=options.settings.cache)
        oracles = tuple(map(registry.find, options.oracles)) or registry.ALL
        with ExitStack() as leases:  # an error below gives the GPUs back
            if options.engine.needs_gpu and not gpus:
                gpus = leases.enter_context(leased(options.gpus, options.settings))
            self._check_sanitizer(gpus)
            self._leases = leases.pop_all()
        self.gpus = gpus
        """The hardware GPUs that the session holds until it is closed."""
        at_once = len(gpus) if options.engine is EngineName.CUDA else len(os.sched_getaffinity(0))
        self.processes = options.processes or at_once
        self._shared_zygotes = shared_zygotes
        _report_killed_cases(notify)
        self.compiler = BackgroundCompiler(Path(_scratch(), BUILDS))
        self.judge = Judge(oracles=oracles, resources=self.compiler)
        self.pool = self._new_pool(notify)
        self._compilers = _compilers(options, self.processes)
        self._ahead = self._new_compile_ahead(notify) if self._compilers else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every process of the session, and give the GPUs back."""
        self.compiler.close()
        if self._ahead is not None:
            self._ahead.close()
        self.pool.close()
        self._leases.close()

    @property
    def sources(self) -> tuple[Path, ...]:
        """Folders that may hold the source files of kernels."""
        return tuple(map(Path, self.library_paths))

    def campaign(self, plan: Plan, observer: SearchObserver) -> Campaign:
        """Return a campaign that has not begun."""
        workers = CampaignWorkers(
            runner=self._ahead or self.pool,
            processes=self.processes,
            compilers=self._compilers,
            submit_compiled=self._ahead.submit_compiled if self._ahead else None,
        )
        return Campaign(plan, workers, self.judge, observer)

    @property
    def gpu_wait_share(self) -> float | None:
        """The share of time in which GPUs waited for the compiler, 0 to 1; None if nothing is compiled ahead."""
        return self._ahead.waiting_share if self._ahead else None

    def triage(self, statistics: CampaignStatistics, observer: SearchObserver, keep: Callable[[Finding], None]) -> None:
        """Pass a finding to `keep` for each sighting, as soon as it is ready.

        After `SHRINKING_S`, findings are no longer shrunk.
        """
        deadline = time.monotonic() + SHRINKING_S
        triage = self._triage(observer.trying)
        sightings = statistics.in_order()
        for number, sighting in enumerate(sightings, 1):
            observer.shrinking(sighting.fail, number, len(sightings))
            limits = self.options.limits
            left = max(0.0, min(limits.seconds, deadline - time.monotonic()))
            keep(triage.finding(sighting, replace(limits, seconds=left)))

    def unconfirmed(self, statistics: CampaignStatistics, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return unconfirmed findings for the sightings that `findings` lacks: for an interrupted search."""
        done = {finding.fail.signature for finding in findings}
        triage = self._triage(lambda _: None)
        return tuple(triage.unconfirmed(one) for one in statistics.in_order() if one.fail.signature not in done)

    def _triage(self, trying: Callable[[Case], None]) -> Triage:
        return Triage(
            runner=self.pool,
            judge=self.judge,
            libraries=self.options.libraries,
            engine_options=self.options.engine_options,
            trying=trying,
        )

    def _new_pool(self, notify: Callable[[str], None]) -> Pool:
        options = PoolOptions(
            isolation=self.options.isolation,
            gpus=GpuAssigner(self.gpus, notify) if self.gpus else None,
            shared_zygotes=self._shared_zygotes,
            core_dump_environment=self._core_dump_environment,
        )
        return Pool(cache(self._spec_of), self.processes, self._time_limit_s, options)

    def _new_compile_ahead(self, notify: Callable[[str], None]) -> CompileAhead:
        # The compilers build for the first GPU.  The GPUs of one machine are alike; another one compiles for itself.
        gpu_environment = compiler_environment(self.gpus[0])

        def spec_of(device: DeviceProfile) -> WorkerSpec:
            spec = self._spec_of(device)
            environment = (*gpu_environment, *spec.environment)
            return replace(spec, engine=COMPILE_AHEAD_FACTORY, environment=environment, sanitizing=None)

        # The limit does not adapt: a rare config can compile ten times as long as nearly all others, and is no hang.
        options = PoolOptions(shared_zygotes=self._shared_zygotes, is_limit_adaptive=False)
        compilers = Pool(cache(spec_of), self._compilers, self._time_limit_s, options)
        return CompileAhead(self.pool, compilers, self.processes, notify)

    def _spec_of(self, device: DeviceProfile) -> WorkerSpec:
        options = self.options
        plain = WorkerSpec(
            device=device,
            suites=options.suites,
            project=str(options.project),
            scratch=_scratch(),
            library_paths=self.library_paths,
            engine=options.engine.factory,
            load_limit_s=LOAD_LIMIT_S * self._slowdown,
        )
        match options.sanitizer:
            case None:
                return plain
            case Sanitizing() as tool:
                return replace(plain, sanitizing=tool)
            case Instrumenting() as instrumentation:
                return replace(plain, instrumenting=instrumentation, environment=instrumentation.environment)

    def _check_sanitizer(self, gpus: tuple[RealGpu, ...]) -> None:
        if self.options.sanitizer is not None:
            for gpu in gpus:
                self.options.sanitizer.check(gpu)

    @property
    def _core_dump_environment(self) -> tuple[tuple[str, str], ...]:
        """Variables that let CUDA report where a kernel spins.  Empty under a sanitizer, which needs the process."""
        if not self.gpus or self.options.sanitizer:
            return ()
        return coredump.environment(prepared(FOLDER) / "dumps")

    @property
    def _time_limit_s(self) -> float:
        return self.options.time_limit_s * self._slowdown

    @property
    def _slowdown(self) -> float:
        return SLOWDOWN if self.options.sanitizer else 1.0


def _compilers(options: Options, at_once: int) -> int:
    """Return how many processes compile ahead: `--compilers`, or the cores that GPU processes and this one leave."""
    if options.engine is not EngineName.CUDA:
        return 0
    left = len(os.sched_getaffinity(0)) - at_once - 1
    return max(0, left if options.compilers is None else options.compilers)


def _report_killed_cases(notify: Callable[[str], None]) -> None:
    for case in left_behind(_scratch()):
        notify(f"a search that was killed here was running {case}")


def _scratch() -> str:
    return str(prepared(FOLDER) / "scratch")


def prepared(folder: Path) -> Path:
    """Create the folder if it is missing, with a `.gitignore`, and return it.

    Raises:
        UsageError: the folder is not writable.
    """
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)  # another search may be making it
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
        TemporaryFile(dir=folder).close()  # os.access is true for root, and for a full disk
    except OSError as error:
        raise UsageError(f"cannot write to {folder.absolute()}: {error.strerror}: run it in another folder") from None
    return folder
