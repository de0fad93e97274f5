"""Options of a search: a plan whose suites, devices, engine and sanitizer are loaded."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness import catalogue
from harness.engines.cuda.sanitizers.instrumentation import Instrumenting, instrumenting, names_triton_sanitizer
from harness.engines.cuda.sanitizers.sanitizer_command import Sanitizing, sanitizing
from harness.engines.cuda.sanitizers.suppressions import FILE as ACCEPTS
from harness.engines.cuda.sanitizers.suppressions import read_suppressions
from harness.errors import SuiteError, UsageError, unknown
from harness.model.case import Case
from harness.model.device import DeviceProfile, Vendor
from harness.model.engine_traits import VIRTUAL, EngineTraits
from harness.model.op import Op
from harness.model.plan import TIME_LIMIT_S, TRIAGE_S, Plan
from harness.oracles import registry
from harness.oracles.traits import Need
from harness.search import USUAL_DEVICES
from harness.search.campaign_plan import Budget, CampaignPlan, CaseBudget, TimeBudget
from harness.search.engine_choice import parse_engine
from harness.search.leasing import own_devices
from harness.search.shrinking import ShrinkLimits
from harness.settings import Settings
from harness.suite import load_suite
from harness.workers.spec import Isolation

USUAL_CASES = 300
TRIAGE_SHARE = 0.5
"""The largest part of a time budget that is kept for triage."""

SanitizerChoice = Sanitizing | Instrumenting
"""A tool of compute-sanitizer that runs the processes, or one of Triton's sanitizers that instruments kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All options of one search."""

    suites: tuple[str, ...]
    """Suite files, by their names in cases; folders on the command line are already expanded."""
    ops: tuple[Op, ...]
    devices: tuple[DeviceProfile, ...]
    budget: Budget
    seed: int
    project: Path = Path()
    """The folder to which relative names of suites refer."""
    processes: int | None = None
    """Cases at once.  None: one per core, or a few per hardware GPU with the engine `cuda`."""
    compilers: int | None = None
    """Processes that compile ahead of hardware GPUs.  None: one per remaining core."""
    fixed_sm_count: bool = False
    """True: run every case on the devices' own SM counts."""
    libraries: tuple[str, ...] = ()
    """Requirements, folders and archives, as `--with` takes them."""
    import_paths: tuple[str, ...] = ()
    """More folders for the workers' `sys.path`: those from which a test file imports its helpers."""
    oracles: tuple[str, ...] = ()
    """Names of the oracles to use; empty means all."""
    second_runs_one_in: int = 1
    """As `CampaignPlan.second_runs_one_in`, for the second runs of the oracles that are named."""
    isolation: Isolation = Isolation.WORKER
    time_limit_s: float = TIME_LIMIT_S
    engine: EngineTraits = VIRTUAL
    sanitizer: SanitizerChoice | None = None
    gpus: int | None = None
    """How many hardware GPUs to lease.  None: all that are free."""
    settings: Settings = Settings()
    triage_s: float = TRIAGE_S
    """Time to confirm and shrink all findings together, after a search with a budget in cases."""
    shows_output: bool = False
    """True: what ops and kernels print appears on standard output."""
    confined_to: tuple[str, ...] = ()
    """As `WorkerSpec.confined_to`.  Empty: processes are not confined."""
    first_cases: tuple[Case, ...] = ()
    """As `Plan.first_cases`."""
    limits: ShrinkLimits = field(default_factory=ShrinkLimits)
    """Limits for shrinking one finding."""

    @property
    def engine_options(self) -> tuple[str, ...]:
        """The command-line options that select this engine and sanitizer; empty for the virtual GPU."""
        if self.engine is VIRTUAL:
            return ()
        sanitizer = ("--sanitizer", str(self.sanitizer)) if self.sanitizer else ()
        return ("--engine", str(self.engine), *sanitizer)

    @property
    def declared_variables(self) -> tuple[str, ...]:
        """The environment variables that ops declare: their cases alone decide if these are set."""
        return tuple(sorted({name for op in self.ops for name in op.environment}))

    @property
    def needs_exact_runs(self) -> bool:
        """True if an oracle is named that every case has an exact run for, and not its whole family."""
        traits = map(registry.traits_of, self.oracles)
        return any(Need.EXACT_RUN in each.needs and each.family not in self.oracles for each in traits)

    @property
    def plan(self) -> CampaignPlan:
        return CampaignPlan(
            ops=self.ops,
            devices=self.devices,
            budget=self.budget,
            seed=self.seed,
            fixed_sm_count=self.fixed_sm_count,
            adds_variants=self.engine.is_hardware and isinstance(self.budget, TimeBudget),
            first_cases=self.first_cases,
            has_realistic_sizes=self.engine.is_hardware and self.sanitizer is None,
            second_runs=frozenset(filter(None, (registry.traits_of(name).second_run for name in self.oracles))),
            second_runs_one_in=self.second_runs_one_in,
        )


def options_of(
    plan: Plan, settings: Settings, project: Path, *, ops: tuple[Op, ...] | None = None, accepts: Path = Path(ACCEPTS)
) -> Options:
    """Return the options of a search as the plan asks; `ops` are those of its suites if they are loaded already.

    Raises:
        HarnessError: something that the plan names does not exist, or does not go with the rest.
    """
    engine = parse_engine(plan.engine)
    is_own = plan.device is None and engine.needs_gpu
    loaded = load_ops(plan.suites, plan.op, project) if ops is None else ops
    return Options(
        suites=tuple(suite for suite in plan.suites if any(op.suite == suite for op in loaded)),
        ops=with_environment(loaded, plan.env),
        devices=own_devices(plan.sm) if is_own else load_devices(plan.device, plan.sm, engine),
        budget=CaseBudget(cases=plan.cases or USUAL_CASES)
        if plan.seconds is None
        else TimeBudget(seconds=plan.seconds, triage_share=TRIAGE_SHARE, cases=plan.cases),
        triage_s=plan.triage_seconds,
        seed=plan.seed,
        project=project,
        fixed_sm_count=plan.sm is not None,
        libraries=plan.libraries,
        oracles=tuple(oracle for name in plan.oracle for oracle in registry.family(registry.find(name).name)),
        isolation=Isolation(plan.isolation),
        time_limit_s=plan.time_limit_s,
        engine=engine,
        sanitizer=sanitizer_for(plan.sanitizer, engine, accepts, settings),
        settings=settings,
        first_cases=plan.first_cases,
    )


def sanitizer_for(text: str | None, engine: EngineTraits, accepts: Path, settings: Settings) -> SanitizerChoice | None:
    """Return the sanitizer that `--sanitizer` names; the file `accepts` lists the reports that are accepted.

    Raises:
        UsageError: no sanitizer has this name, the engine runs no kernel on a GPU, or the file is invalid.
        MissingPart: compute-sanitizer is not installed, or the installed Triton lacks this sanitizer.
    """
    if not text:
        return None
    check_sanitizer_engine(text, engine)
    accepted = read_suppressions(accepts)
    return instrumenting(text, accepted) if names_triton_sanitizer(text) else sanitizing(text, settings, accepted)


def check_sanitizer_engine(text: str | None, engine: EngineTraits) -> None:
    """Raise UsageError if a sanitizer is named, and the engine runs no kernel on a GPU."""
    if text and engine.has_provenance:
        raise UsageError("--sanitizer watches kernels on a real GPU: add --engine cuda")


def load_ops(suites: tuple[str, ...], names: tuple[str, ...], project: Path = Path()) -> tuple[Op, ...]:
    """Return the ops of these suites of a project, or those among them that `names` lists.

    Raises:
        SuiteError: a suite cannot be loaded, or waives an oracle that does not exist.
        UsageError: no suite declares an op of such a name.
    """
    ops = tuple(op for suite in suites for op in load_suite(suite, project))
    for op in ops:
        for oracle in sorted(op.waives):
            try:
                registry.find(oracle)
            except UsageError as error:
                raise SuiteError(f"{op.suite}: op {op.name!r} waives an {error}") from None
    known = {op.name for op in ops}
    for name in names:
        if name not in known:
            raise unknown("op", name, known)
    return tuple(op for op in ops if not names or op.name in names)


def with_environment(ops: tuple[Op, ...], environment: Mapping[str, tuple[str, ...]]) -> tuple[Op, ...]:
    """Return the ops with other values worth trying for these environment variables; none leaves a variable unset."""
    return tuple(replace(op, environment={**op.environment, **environment}) for op in ops) if environment else ops


def load_devices(names: str | None, sm_count: int | None, engine: EngineTraits = VIRTUAL) -> tuple[DeviceProfile, ...]:
    """Return the devices that `--device` and `--sm` name.

    Raises:
        UsageError: a device does not exist, cannot have this SM count, or is none that the engine emulates.
    """
    if names is not None and not any(_parts(names)):
        raise UsageError("--device names no device")
    devices = catalogue.find_all(",".join(_parts(names or USUAL_DEVICES)), sm_count=sm_count)
    for device in devices:
        if device.vendor is not Vendor.NVIDIA and not engine.emulates_all_vendors:
            raise UsageError(
                f"--engine {engine} runs what is compiled for NVIDIA's GPUs: leave it out for {device.slug}"
            )
    return devices


def _parts(names: str) -> Iterator[str]:
    return (part.strip() for part in names.split(",") if part.strip())
