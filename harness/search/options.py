"""What a search is asked to do, read once from the command line or from pytest's, and never again."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.cuda.sanitizers.instrumentation import Instrumenting, instrumenting, names_one
from harness.cuda.sanitizers.sanitizer_command import Sanitizing, sanitizing
from harness.cuda.sanitizers.suppressions import read_suppressions
from harness.devices import catalogue
from harness.errors import SuiteError, UsageError, unknown
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.oracles import registry
from harness.search import USUAL_DEVICES
from harness.search.plan import Budget, Plan, TimeBudget
from harness.search.shrinking import ShrinkLimits
from harness.suite import load_suite
from harness.workers.spec import Isolation

TIME_LIMIT_S = 60.0
VIRTUAL = "harness.virtual.engine:VirtualEngine"
CUDA = "harness.cuda.engine:CudaEngine"
BOTH = "harness.cuda.comparison.engine:BothEngine"
AHEAD = "harness.cuda.compile_ahead_engine:CompileAheadEngine"
"""What compiles for `CUDA` beside it; no case is judged there."""
ENGINES = {"virtual": VIRTUAL, "cuda": CUDA, "cuda,virtual": BOTH, "virtual,cuda": BOTH}
"""Short names; any other is `module:factory`."""
ON_GPUS = frozenset({CUDA, BOTH})
"""Those whose processes need a real GPU each."""


Watching = Sanitizing | Instrumenting
"""A tool of compute-sanitizer under which processes run, or a sanitizer of Triton's with which they compile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One search."""

    suites: tuple[str, ...]
    """Suite files, as given on the command line; folders are already spread out."""
    ops: tuple[Op, ...]
    devices: tuple[DeviceProfile, ...]
    budget: Budget
    seed: int
    processes: int | None = None
    """Cases at once; where None, one a core, or one on each real GPU where nothing runs beside."""
    compilers: int | None = None
    """Processes that compile ahead of real GPUs; where None, the cores that are left."""
    fixed_sm_count: bool = False
    """The devices' SM counts were given, and stay."""
    libraries: tuple[str, ...] = ()
    """What `--with` said."""
    oracles: tuple[str, ...] = ()
    """The names of those to ask; all where empty."""
    isolation: Isolation = Isolation.WORKER
    time_limit_s: float = TIME_LIMIT_S
    engine: str = VIRTUAL
    """Module and name of what makes the engine."""
    sanitizing: Watching | None = None
    """What watches the kernels of cases."""
    gpus: int | None = None
    """How many real GPUs to lease, for the engine that runs there; as many as are free where None."""
    limits: ShrinkLimits = field(default_factory=ShrinkLimits)
    """For making one finding small."""

    @property
    def where(self) -> tuple[str, ...]:
        """The options with which a command runs cases where this search does; none for the virtual GPU."""
        if self.engine == VIRTUAL:
            return ()
        name = next((short for short, factory in ENGINES.items() if factory == self.engine), self.engine)
        sanitizer = ("--sanitizer", str(self.sanitizing)) if self.sanitizing else ()
        return ("--engine", name, *sanitizer)

    @property
    def plan(self) -> Plan:
        """The campaign that is asked for."""
        return Plan(
            ops=self.ops,
            devices=self.devices,
            budget=self.budget,
            seed=self.seed,
            fixed_sm_count=self.fixed_sm_count,
            kin=self.engine == CUDA and isinstance(self.budget, TimeBudget),
        )


def engine_of(name: str) -> str:
    """The engine's factory, for its short name.

    Raises:
        UsageError: it is neither a short name nor `module:factory`; the text names the nearest.
    """
    if name not in ENGINES and ":" not in name:
        raise unknown("engine", name, ENGINES)
    return ENGINES.get(name, name)


def sanitizing_for(wanted: str | None, engine: str, accepts: Path) -> Watching | None:
    """What `--sanitizer` asks for, with the reports that the file `accepts`; None where it asks for nothing.

    Raises:
        UsageError: there is no such tool, no kernel that it could watch, or the file is wrong.
        MissingPart: compute-sanitizer is not here, or the installed Triton has no sanitizer of that name.
    """
    if not wanted:
        return None
    if engine in {VIRTUAL, BOTH}:
        raise UsageError("--sanitizer watches kernels on a real GPU: add --engine cuda")
    accepted = read_suppressions(accepts)
    return instrumenting(wanted, accepted) if names_one(wanted) else sanitizing(wanted, accepted)


def suite_files(given: str) -> tuple[str, ...]:
    """The suite files that an argument names: itself, or those in the folder.

    Raises:
        SuiteError: there is no suite in the folder.
        UsageError: there is no such file or folder.
    """
    path = Path(given)
    if not path.exists():
        raise unknown("suite", given, [str(file) for file in Path("suites").rglob("*.py") if is_suite(file)])
    if not path.is_dir():
        return (given,)
    if files := tuple(str(file) for file in sorted(path.rglob("*.py")) if is_suite(file)):
        return files
    raise SuiteError(f"no suite in the folder {given!r}: a suite is a Python file that imports harness.suite")


def is_suite(path: Path) -> bool:
    """Whether a Python file looks like a suite: it imports `harness.suite`, and is neither a test nor private."""
    if path.name.startswith(("test_", "_", ".")) or path.name == "conftest.py":
        return False
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return "harness.suite" in text or "from harness import suite" in text


def load_ops(suites: tuple[str, ...], names: tuple[str, ...]) -> tuple[Op, ...]:
    """The ops of these suites, or those of them that are named.

    Raises:
        SuiteError: a suite cannot be loaded, or waives an oracle that does not exist.
        UsageError: no suite declares an op of a given name.
    """
    ops = tuple(op for suite in suites for op in load_suite(suite))
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


def load_devices(names: str | None, sm_count: int | None) -> tuple[DeviceProfile, ...]:
    """The devices that `--device` and `--sm` name.

    Raises:
        UsageError: a device does not exist, or the SM count makes no sense.
    """
    if names is not None and not any(_parts(names)):
        raise UsageError("--device names no device")
    return catalogue.find_all(",".join(_parts(names or USUAL_DEVICES)), sm_count=sm_count)


def _parts(names: str) -> Iterator[str]:
    return (part.strip() for part in names.split(",") if part.strip())
