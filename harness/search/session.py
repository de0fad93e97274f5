"""One place to work: the pool of processes that options ask for, the judge, and what to do with both.

Both faces, the command line and pytest, work through it.
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
from harness.cuda.emulation import compiling_for
from harness.cuda.gpus.inventory import RealGpu
from harness.cuda.sanitizers.instrumentation import Instrumenting
from harness.cuda.sanitizers.sanitizer_command import SLOWDOWN, Sanitizing
from harness.errors import UsageError
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.finding import Finding
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.search.campaign import Campaign, Observer
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.judge import Judge
from harness.search.leasing import leased
from harness.search.options import AHEAD, CUDA, ON_GPUS, Options
from harness.search.plan import Plan
from harness.search.triage import Triage
from harness.workers.background_compiler import BackgroundCompiler
from harness.workers.compile_ahead import CompileAhead
from harness.workers.folder import left_behind
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.pool import Pool
from harness.workers.spec import BUILDS, LOAD_LIMIT_S, WorkerSpec
from harness.workers.zygote.shared_zygotes import SharedZygotes

SHRINKING_S = 600.0
"""For making the findings of one search small, all together."""
FOLDER = Path(".harness")
"""Where everything lies that is kept between searches: Triton's cache, findings."""


class Watcher(Observer, Protocol):
    """Who watches a whole search."""

    def shrinking(self, fail: Fail, number: int, total: int) -> None:
        """Triage turns to this failure, the `number`th of `total`."""
        ...

    def trying(self, case: Case) -> None:
        """This case runs next."""
        ...


class Session:
    """A context manager: no process is left when it is."""

    def __init__(
        self,
        options: Options,
        say: Callable[[str], None] = lambda _: None,
        gpus: tuple[RealGpu, ...] = (),
        grounds: SharedZygotes | None = None,
    ) -> None:
        """Fetch the libraries under test, and lease GPUs where the engine needs them and none is given.

        `say` hears what befalls them, and which cases an earlier session did not live to end; `grounds` outlive the
        session, and are each pool's own otherwise.

        Raises:
            LibraryError: one of them cannot be installed.
            MissingPart, GpuUnavailable: there is no GPU for cases, or none is free.
            UsageError: a GPU cannot run what a sanitizer makes of kernels.
        """
        self.options = options
        self.library_paths = tuple(str(path) for path in libraries.resolve(options.libraries))
        oracles = tuple(map(registry.find, options.oracles)) or registry.ALL
        self._leases = ExitStack()
        if options.engine in ON_GPUS and not gpus:
            gpus = self._leases.enter_context(leased(options.gpus))
        self.gpus = gpus
        """The real GPUs that are this session's as long as it is open."""
        try:
            self._check()
        except UsageError:
            self._leases.close()
            raise
        at_once = len(self.gpus) if options.engine == CUDA else len(os.sched_getaffinity(0))
        self.processes = options.processes or at_once
        scratch = _scratch()
        for case in left_behind(scratch):
            say(f"a search that was killed here was running {case}")
        self.compiler = BackgroundCompiler(Path(scratch, BUILDS))
        self.judge = Judge(oracles=oracles, resources=self.compiler)
        places = GpuAssigner(self.gpus, say) if self.gpus else None
        limit_s = options.time_limit_s * self._slowdown
        self._grounds = grounds
        self.pool = Pool(
            cache(self._spec_of),
            self.processes,
            limit_s,
            options.isolation,
            places,
            grounds=self._grounds,
            listening=self._listening,
        )
        self._compilers = _compilers(options, self.processes)
        self._ahead = self._compile_ahead(limit_s, say) if self._compilers else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every process of the session."""
        self.compiler.close()
        if self._ahead is not None:
            self._ahead.close()
        self.pool.close()
        self._leases.close()

    @property
    def sources(self) -> tuple[Path, ...]:
        """Where the source files of kernels may lie."""
        return tuple(map(Path, self.library_paths))

    def campaign(self, plan: Plan, watcher: Watcher) -> Campaign:
        """A search for what the plan asks for, not begun."""
        return Campaign(
            plan,
            self._ahead or self.pool,
            self.judge,
            watcher,
            processes=self.processes,
            compilers=self._compilers,
            submit_twin=self._ahead.submit_compiled if self._ahead else None,
        )

    @property
    def waiting(self) -> float | None:
        """The share of time in which real GPUs waited for the compiler; None where nothing is compiled ahead."""
        return self._ahead.waiting if self._ahead else None

    def triage(self, tally: CampaignStatistics, watcher: Watcher, keep: Callable[[Finding], None]) -> None:
        """Make findings of all sightings, and hand over each as soon as it is one; past a limit they stay large."""
        deadline = time.monotonic() + SHRINKING_S
        triage = self._triage(watcher.trying)
        sightings = tally.in_order()
        for number, sighting in enumerate(sightings, 1):
            watcher.shrinking(sighting.fail, number, len(sightings))
            limits = self.options.limits
            left = max(0.0, min(limits.seconds, deadline - time.monotonic()))
            keep(triage.finding(sighting, replace(limits, seconds=left)))

    def unconfirmed(self, tally: CampaignStatistics, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """What was seen but is no finding yet, as it was seen: for a search that was interrupted."""
        done = {finding.fail.signature for finding in findings}
        triage = self._triage(lambda _: None)
        return tuple(triage.unconfirmed(one) for one in tally.in_order() if one.fail.signature not in done)

    def _triage(self, trying: Callable[[Case], None]) -> Triage:
        options = self.options
        return Triage(
            runner=self.pool, judge=self.judge, libraries=options.libraries, where=options.where, trying=trying
        )

    def _spec_of(self, device: DeviceProfile) -> WorkerSpec:
        watching = self.options.sanitizing
        return WorkerSpec(
            device=device,
            suites=self.options.suites,
            scratch=_scratch(),
            library_paths=self.library_paths,
            engine=self.options.engine,
            environment=self._checks,
            sanitizing=watching if isinstance(watching, Sanitizing) else None,
            instrumenting=watching if isinstance(watching, Instrumenting) else None,
            load_limit_s=LOAD_LIMIT_S * self._slowdown,
        )

    def _compile_ahead(self, limit_s: float, say: Callable[[str], None]) -> CompileAhead:
        """On the first GPU's account: those of one machine are alike, or compile for themselves."""
        environment = (*compiling_for(self.gpus[0]), *self._checks)
        spec_of = cache(
            lambda device: replace(self._spec_of(device), engine=AHEAD, environment=environment, sanitizing=None)
        )
        # A case with a rare config takes the compiler ten times as long as nearly all others, and is no hang.
        compilers = Pool(spec_of, self._compilers, limit_s, grounds=self._grounds, follows=False)
        return CompileAhead(self.pool, compilers, self.processes, say)

    @property
    def _listening(self) -> tuple[tuple[str, str], ...]:
        """CUDA tells where a kernel spins if it is asked in time; compute-sanitizer wants the process for itself."""
        if not self.gpus or self.options.sanitizing:
            return ()
        return coredump.environment(prepared(FOLDER) / "dumps")

    def _check(self) -> None:
        if isinstance(self.options.sanitizing, Instrumenting):
            for gpu in self.gpus:
                self.options.sanitizing.check(gpu)

    @property
    def _checks(self) -> tuple[tuple[str, str], ...]:
        """What tells processes to compile with a sanitizer of Triton's."""
        watching = self.options.sanitizing
        return watching.environment if isinstance(watching, Instrumenting) else ()

    @property
    def _slowdown(self) -> float:
        return SLOWDOWN if self.options.sanitizing else 1.0


def _compilers(options: Options, at_once: int) -> int:
    """Processes that compile ahead: as asked for, else the cores that neither a GPU's process nor this one needs."""
    if options.engine != CUDA:
        return 0
    left = len(os.sched_getaffinity(0)) - at_once - 1
    return max(0, left if options.compilers is None else options.compilers)


def _scratch() -> str:
    return str(prepared(FOLDER) / "scratch")


def prepared(folder: Path) -> Path:
    """The folder, made where it is missing, and kept out of the repository that it lies in.

    Raises:
        UsageError: nothing can be written there.
    """
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)  # another search may be making it
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
        TemporaryFile(dir=folder).close()  # to ask for permission says little: of root, or where nothing has room
    except OSError as error:
        raise UsageError(f"cannot write to {folder.absolute()}: {error.strerror}: run it in another folder") from None
    return folder
