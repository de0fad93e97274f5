"""A session: the processes and GPUs of one search, its judge, and the campaigns and triage that use them.

The command line and the pytest plugin both work through a session.
"""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Self

from harness import libraries
from harness.compiling.background_compiler import BackgroundCompiler
from harness.compiling.compile_ahead import CompileAhead
from harness.engines.cuda import coredump
from harness.engines.cuda.emulation import compiler_environment
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.sanitizers.instrumentation import Instrumenting
from harness.engines.cuda.sanitizers.sanitizer_command import SLOWDOWN, Sanitizing
from harness.errors import UsageError
from harness.model.case import HARNESS_FOLDER, Case
from harness.model.device import DeviceProfile
from harness.model.engine_traits import COMPILE_AHEAD, VIRTUAL
from harness.model.finding import Finding
from harness.model.verdict import Fail
from harness.oracles import registry
from harness.search.campaign import Campaign, CampaignWorkers, Observer
from harness.search.campaign_plan import CampaignPlan, CaseBudget, TimeBudget
from harness.search.campaign_statistics import CampaignStatistics, Sighting, Trial
from harness.search.deadline import Deadline
from harness.search.hardware_runs import HardwareBlaming
from harness.search.inquiries import looked_into
from harness.search.judge import Judge
from harness.search.leasing import leased
from harness.search.listed_configs import with_listed_configs
from harness.search.missing_libraries import refuse_missing_distributions, refuse_missing_modules
from harness.search.options import Options
from harness.search.triage import Triage, unconfirmed
from harness.search.triage_queue import TriageObserver, TriageQueue
from harness.workers.folder import left_behind
from harness.workers.fork_servers.residents import Residents
from harness.workers.fork_servers.shared_zygotes import SharedZygotes
from harness.workers.gpu_assignment import GpuAssigner
from harness.workers.pool import Pool, PoolOptions
from harness.workers.spec import BUILDS, GIB, HARDWARE_GIB, LOAD_LIMIT_S, VIRTUAL_GIB, WorkerSpec

ENDING_S = 1.0
"""Time that is left to end the processes and to print what was found."""
GPU_SHARE = range(2, 5)
"""Processes on a GPU: the others run cases while one compiles what nobody has compiled ahead, or starts CUDA."""
CORES_PER_GPU_PROCESS = 4
COMPILING_TURNS = 8
"""Turns of triage beside those that have a GPU: what they need is being compiled."""
CORES_PER_VIRTUAL_GPU = 4
"""One process of the virtual GPU repeats failures on a hardware GPU for so many cores; the others compile."""
BLAMING_S = 60.0
"""The least time for triage after failures on a hardware GPU: more builds of their kernels are compiled."""


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
        outlive the session; the session has its own if None.

        Raises:
            LibraryError: a library is missing, or cannot be installed.
            MissingPart, GpuUnavailable: the machine has no GPU for cases, or none is free.
            UsageError: a GPU cannot run the kernels that a sanitizer instruments.
        """
        self.options = options
        self._begun = time.monotonic()
        refuse_missing_distributions(options)
        self.library_paths = libraries.resolve(options.libraries, cache=options.settings.cache)
        refuse_missing_modules(options, (*self.library_paths, *options.import_paths))
        oracles = tuple(map(registry.find, options.oracles)) or registry.ALL
        with ExitStack() as leases:  # an error below gives the GPUs back
            if options.engine.needs_gpu and not gpus:
                gpus = leases.enter_context(leased(options.gpus, options.settings))
            self._check_sanitizer(gpus)
            self._leases = leases.pop_all()
        self.gpus = gpus
        """The hardware GPUs that the session holds until it is closed."""
        self.processes = options.processes or _cases_at_once(options, len(gpus))
        self._own_zygotes = SharedZygotes(Residents.allowed_by(options.settings)) if shared_zygotes is None else None
        self._shared_zygotes = shared_zygotes or self._own_zygotes
        _report_killed_cases(notify)
        _report_unset_variables(options, notify)
        builds = options.confined_to[0] if options.confined_to else _scratch()
        self.compiler = BackgroundCompiler(Path(builds, BUILDS))
        self.judge = Judge(oracles=oracles, resources=self.compiler, exactly=options.needs_exact_runs)
        self.pool = self._new_pool(notify)
        self._compilers = _compilers(options, self.processes)
        self._ahead = self._new_compile_ahead(notify) if self._compilers else None
        self._blaming = self._new_blaming() if gpus and options.engine.is_hardware else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every process of the session, and give the GPUs back."""
        self.compiler.close()
        if self._ahead is not None:
            self._ahead.close()
        if self._blaming is not None:
            self._blaming.close()
        self.pool.close()
        if self._own_zygotes is not None:
            self._own_zygotes.close()
        self._leases.close()

    def begin(self, options: Options) -> None:
        """Begin another search with the same processes; only ops, devices, budget and seed may differ from the last."""
        self.options, self._begun = options, time.monotonic()

    @property
    def sources(self) -> tuple[Path, ...]:
        """Folders that may hold the source files of kernels."""
        return tuple(map(Path, self.library_paths))

    def campaign(self, plan: CampaignPlan, observer: Observer) -> Campaign:
        """Return a campaign that has not begun."""
        workers = CampaignWorkers(
            runner=self._ahead or self.pool,
            processes=self.processes,
            compilers=self._compilers,
            submit_compiled=self._ahead.submit_compiled if self._ahead else None,
            stop_running=self._stop_running,
        )
        folders = (*self.library_paths, *self.options.import_paths)
        ops = tuple(with_listed_configs(op, plan.devices, folders) for op in plan.ops)
        if self._blaming is not None:
            observer = _PreparingBlame(observer, self._blaming)
        campaign = Campaign(replace(self._within_time(plan), ops=ops), workers, self.judge, observer)
        campaign.statistics.list_configs(ops, plan.devices)
        return campaign

    @property
    def deadline(self) -> Deadline | None:
        """The end of a search with a time budget, triage included; None if cases are the budget."""
        match self.options.budget:
            case TimeBudget(seconds=seconds):
                return Deadline(self._begun + seconds - ENDING_S)
            case CaseBudget():
                return None

    @property
    def gpu_wait_share(self) -> float | None:
        """The share of time in which GPUs waited for the compiler, 0 to 1; None if nothing is compiled ahead."""
        return self._ahead.waiting_share if self._ahead else None

    def triage(
        self, statistics: CampaignStatistics, observer: TriageObserver, keep: Callable[[Sighting, Finding], None]
    ) -> None:
        """Confirm all sightings, then shrink them in turns, until the deadline.

        `keep` receives a finding as soon as it is ready, and better versions of it later.  A sighting for which there
        is no time gets none.
        """
        deadline = self.deadline or Deadline.after(self.options.triage_s)
        if self._ahead is not None and self.deadline is not None:
            self._ahead.stop_compiling()  # for cases that the search has dropped; without a deadline it drops none
        sightings = statistics.in_order()
        at_once = self.processes + min(self._compilers, COMPILING_TURNS)
        queue = TriageQueue(self._triage, at_once, deadline, self.options.limits)
        queue.run(sightings, observer, keep)

    def not_tried(self, sighting: Sighting) -> Finding:
        """Return the finding of a sighting before triage."""
        return unconfirmed(sighting, self.options.libraries, self.options.engine_options)

    def look_into(self, finding: Finding, *, blames_passes: bool = False) -> Finding:
        """Return a finding with what is known of wrong code, as `looked_into` does."""
        return looked_into(finding, self.pool, self.options.time_limit_s, blames_passes=blames_passes)

    def _within_time(self, plan: CampaignPlan) -> CampaignPlan:
        """Return the plan with the time that installing the libraries has left."""
        if self.deadline is None or not isinstance(plan.budget, TimeBudget):
            return plan
        least_triage_s = BLAMING_S if self._blaming is not None else 0.0
        budget = replace(plan.budget, seconds=self.deadline.left_s, least_triage_s=least_triage_s)
        return replace(plan, budget=budget)

    def _triage(self, trying: Callable[[Case], None]) -> Triage:
        return Triage(
            runner=self._ahead or self.pool,
            judge=self.judge,
            libraries=self.options.libraries,
            engine_options=self.options.engine_options,
            trying=trying,
            blaming=self._blaming,
            look_into=self.look_into if self.options.engine.finds_wrong_values else lambda finding: finding,
            as_ready=self._ahead.as_compiled if self._ahead else None,
            is_set_aside=self._ahead.is_set_aside if self._ahead else lambda _: False,
        )

    def _stop_running(self) -> None:
        self.pool.stop_running()
        if self._ahead is not None:
            self._ahead.stop_compiling()

    def _new_blaming(self) -> HardwareBlaming:
        def new_virtual() -> Pool:
            options = PoolOptions(shared_zygotes=self._shared_zygotes)
            processes = max(2, len(os.sched_getaffinity(0)) // CORES_PER_VIRTUAL_GPU)
            return Pool(cache(self._virtual_spec), processes, self._time_limit_s, options)

        return HardwareBlaming(self._ahead or self.pool, new_virtual, self.judge, self.gpus[0])

    def _virtual_spec(self, device: DeviceProfile) -> WorkerSpec:
        plain = self._spec_of(device)
        return replace(plain, engine=VIRTUAL.factory, sanitizing=None, instrumenting=None, environment=())

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
            return replace(spec, engine=COMPILE_AHEAD.factory, environment=environment, sanitizing=None)

        # The limit does not adapt: a rare config can compile ten times as long as nearly all others, and is no hang.
        options = PoolOptions(shared_zygotes=self._shared_zygotes, is_limit_adaptive=False, sends_ahead=False)
        limit_s = self.options.settings.compile_limit_s * self._slowdown
        compilers = Pool(cache(spec_of), self._compilers, limit_s, options)
        return CompileAhead(self.pool, compilers, self.processes, notify)

    def _spec_of(self, device: DeviceProfile) -> WorkerSpec:
        options = self.options
        plain = WorkerSpec(
            device=device,
            suites=options.suites,
            project=str(options.project),
            scratch=_scratch(),
            confined_to=options.confined_to,
            unset=options.declared_variables,
            library_paths=self.library_paths,
            variant_paths=options.import_paths,
            engine=options.engine.factory,
            memory_limit_bytes=GIB * (HARDWARE_GIB if options.engine.needs_gpu else VIRTUAL_GIB),
            load_limit_s=LOAD_LIMIT_S * self._slowdown,
            shows_output=options.shows_output,
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
        return coredump.environment(prepared(HARNESS_FOLDER) / "dumps")

    @property
    def _time_limit_s(self) -> float:
        return self.options.time_limit_s * self._slowdown

    @property
    def _slowdown(self) -> float:
        return SLOWDOWN if self.options.sanitizer else 1.0


class _PreparingBlame:
    """An observer of searches on hardware: the virtual GPU, which tells who is at fault, loads at the first failure."""

    def __init__(self, observer: Observer, blaming: HardwareBlaming) -> None:
        self._blaming = blaming
        self._observer = observer
        self.tick = observer.tick

    def sighted(self, fail: Fail, trial: Trial) -> None:
        self._blaming.prepare(trial.case.device)
        self._observer.sighted(fail, trial)


def _cases_at_once(options: Options, gpus: int) -> int:
    """Return how many processes run cases: one for each core, or a few for each hardware GPU."""
    if not options.engine.is_hardware:
        return len(os.sched_getaffinity(0))
    if options.sanitizer or options.compilers == 0:
        return gpus
    wanted = len(os.sched_getaffinity(0)) // (CORES_PER_GPU_PROCESS * max(1, gpus))
    return gpus * min(max(wanted, GPU_SHARE.start), GPU_SHARE.stop - 1)


def _compilers(options: Options, at_once: int) -> int:
    """Return how many processes compile ahead: `--compilers`, or the cores that GPU processes and this one leave."""
    if not options.engine.is_hardware:
        return 0
    left = len(os.sched_getaffinity(0)) - at_once - 1
    return max(0, left if options.compilers is None else options.compilers)


def _report_killed_cases(notify: Callable[[str], None]) -> None:
    for case in left_behind(_scratch()):
        notify(f"a search that was killed here was running {case}")


def _report_unset_variables(options: Options, notify: Callable[[str], None]) -> None:
    """Say that a variable of this process is not passed on, since cases decide its value."""
    for name in options.declared_variables:
        if name in os.environ:
            notify(f"the value of {name} here does not count: cases set it themselves; --env {name}=… adds values")


def _scratch() -> str:
    return str(prepared(HARNESS_FOLDER) / "scratch")


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
