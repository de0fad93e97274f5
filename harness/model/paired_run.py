"""Requests to worker processes: cases, paired runs, and runs whose kernels are assembled in another way.

A paired run is the run of a case that differs from another case in one thing, for comparison with that case's run.

A paired run has no reference, so nothing in it shows if it is right by itself, and it is never judged by itself.
`harness.execution.paired_run_policy` decides which cases get paired runs.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.model.case import Case
from harness.model.kernel_assembly import KernelAssembly
from harness.model.launch_difference import Plainer
from harness.model.miscompilation import InquiryRequest, Miscompilation
from harness.model.run import Faulted, Launch, Result, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRunRequest:
    """A request for a paired run.  Its case may equal the first one if other builds of the kernels are wanted."""

    case: Case
    dot_precisions: tuple[str, ...]
    """Input precisions of all dots of the first run.  If both runs round products alike, their tolerances are equal."""
    plainer: Plainer | None = None
    """With both engines: launches are repeated on the hardware GPU from this build, and not compared."""
    assembly: KernelAssembly | None = None
    """Another way to assemble the kernels, for a process of its own."""
    inquiry: InquiryRequest | None = None
    """With TTIR and PTX: a wrong launch is looked into, and nothing is compared."""
    compiles_configs: bool = False
    """Every config of each autotuned kernel is compiled, for `Launch.config_builds`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltRequest:
    """A request for the whole run of a case, with kernels assembled in another way, for a process of its own."""

    case: Case
    assembly: KernelAssembly


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """One output or gradient of a paired run, reduced to what a comparison needs."""

    name: str
    """The same as `Result.name`."""
    shape: tuple[int, ...]
    projections: tuple[float, ...]
    """The same as `Result.sketch`."""
    tolerance: tuple[float, ...] = ()
    """The same as `Result.sketch_tolerance`; empty if it equals that of the first run."""

    @classmethod
    def of(cls, result: Result) -> "Sketch":
        """Return the sketch of a whole result."""
        return cls(name=result.name, shape=result.shape, projections=result.sketch, tolerance=result.sketch_tolerance)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRun(Run):
    """A run with sketches in the place of results."""

    sketches: tuple[Sketch, ...] = ()
    miscompilation: Miscompilation | None = None
    """What the inquiry of the request found out; None if there was none."""


RunRequest = Case | PairedRunRequest | RebuiltRequest
"""A request to a worker process."""


class SecondRun(StrEnum):
    """What differs when a case runs a second time: in a paired run, or right after it in the same process."""

    SM_COUNT = "sm_count"
    CONFIG = "config"
    ORDER = "order"
    """The order in which programs begin."""
    LANE_FILL = "lane_fill"
    """The values of undefined lanes; in the same process."""
    REPETITION = "repetition"
    """Nothing; in the same process, on hardware."""
    TUNING = "tuning"
    """The autotuners tune; in the same process."""
    KEYS = "keys"
    """The keys of autotuners are surveyed, and entries of their caches shared; in the same process."""
    THREADS = "threads"
    """Another thread calls the op while the first autotuner tunes; in the same process."""
    LATER = "later"
    """Another call of the op comes between; in the same process."""
    GRAPH = "graph"
    """The call is captured into a CUDA graph; in the same process."""
    ROWS = "rows"
    """The rows that are computed together; in the same process."""
    BUILD = "build"
    """The options of the assembler."""


def difference_of(case: Case, other: Case) -> SecondRun:
    """Return what differs between a case and its paired run."""
    if other.device != case.device:
        return SecondRun.SM_COUNT
    if other.configs != case.configs:
        return SecondRun.CONFIG
    return SecondRun.ORDER if other.order is not case.order else SecondRun.BUILD


def case_of(request: RunRequest) -> Case:
    return request if isinstance(request, Case) else request.case


def assembly_of(request: RunRequest) -> KernelAssembly | None:
    """Return the other way to assemble the kernels; None for the usual way."""
    return None if isinstance(request, Case) else request.assembly


def rebuilt(request: RunRequest, assembly: KernelAssembly) -> RunRequest:
    """Return the same request with kernels that are assembled in another way."""
    if isinstance(request, Case):
        return RebuiltRequest(case=request, assembly=assembly)
    return replace(request, assembly=assembly)


def request_paired_run(run: Run, case: Case) -> PairedRunRequest:
    """Return the request for a run of `case` that is compared with `run` and nothing else."""
    precisions = {precision for launch in run.launches for precision in launch.dot_precisions}
    plainer = Plainer.UNOPTIMISED if case == run.case and faulted_on_hardware_only(run) else None
    return PairedRunRequest(case=case, dot_precisions=tuple(sorted(precisions)), plainer=plainer)


def request_config_builds(run: Run) -> PairedRunRequest:
    """Return the request for the builds of all configs of the kernels that the run launched."""
    return PairedRunRequest(case=run.case, dot_precisions=(), compiles_configs=True)


def with_config_builds(run: Run, repeated: Run) -> Run:
    """Return the run with the builds of all configs that a repeated run has; unchanged if that launched others."""
    if [launch.build for launch in repeated.launches] != [launch.build for launch in run.launches]:
        return run
    pairs = zip(run.launches, repeated.launches, strict=True)
    return replace(run, launches=tuple(replace(own, config_builds=other.config_builds) for own, other in pairs))


def faulted_on_hardware_only(run: Run) -> bool:
    """Return True if a launch that the virtual GPU executed faulted on the hardware GPU."""
    return run.agreement is not None and isinstance(run.ending, Faulted) and run.ending.launch is not None


def sketches_of(run: Run) -> tuple[Sketch, ...]:
    return run.sketches if isinstance(run, PairedRun) else tuple(map(Sketch.of, run.results))


def launch_of(launches: Iterable[Launch], kernel: str) -> Launch | None:
    """Return the kernel's first launch that is no benchmark; None if it was not launched."""
    own = sorted((launch for launch in launches if launch.kernel == kernel), key=lambda launch: launch.is_benchmark)
    return next(iter(own), None)
