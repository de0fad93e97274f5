"""Companion runs: of a case that differs from another in one thing, made to be compared with that case's run alone.

Owns what is asked for and what comes back.  A companion is compared with no reference, so nothing in it tells whether
it is right by itself, and it is never judged by itself.  The case itself is run beside where the builds are others.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from harness.model.case import Case
from harness.model.launch_difference import Plainer
from harness.model.run import Faulted, Launch, MemoryEvent, OrderDependence, Overlap, Result, Run

ONE_CASE_IN = 8
"""Seeds that are a multiple of this are run a second time; 0 is one, so shrinking the seed keeps the second run.

About as rare as that in what is drawn, too: `harness.search.strategies` sees to it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRunRequest:
    """The wish for a companion."""

    case: Case
    dot_precisions: tuple[str, ...]
    """Of all launches of the run beside which it is made: where both round products alike, tolerances are equal too."""
    plainer: Plainer | None = None
    """On both GPUs: launches are repeated on the real one as so built, and not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """One output or gradient, as far as another run's needs it."""

    name: str
    """As `Result.name`."""
    shape: tuple[int, ...]
    projections: tuple[float, ...]
    """As `Result.sketch`."""
    tolerance: tuple[float, ...] = ()
    """As `Result.sketch_tolerance`; empty where it is that of the run beside which this one was made."""

    @classmethod
    def of(cls, result: Result) -> "Sketch":
        """What of a whole result another run's is compared with."""
        return cls(name=result.name, shape=result.shape, projections=result.sketch, tolerance=result.sketch_tolerance)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRun(Run):
    """What came of it: a run with sketches in the place of results."""

    sketches: tuple[Sketch, ...] = ()


RunRequest = Case | PairedRunRequest
"""What a process can be asked to run."""


def case_of(wanted: RunRequest) -> Case:
    """The case that is to be run."""
    return wanted.case if isinstance(wanted, PairedRunRequest) else wanted


def beside(run: Run, case: Case) -> PairedRunRequest:
    """The wish for a run of `case` that is compared with `run` and nothing else."""
    precisions = {precision for launch in run.launches for precision in launch.dot_precisions}
    plainer = Plainer.UNOPTIMISED if case == run.case and ended_there_alone(run) else None
    return PairedRunRequest(case=case, dot_precisions=tuple(sorted(precisions)), plainer=plainer)


def ended_there_alone(run: Run) -> bool:
    """Whether a launch that the virtual GPU executed, and saw nothing in, cost the real one its context."""
    return run.agreement is not None and isinstance(run.ending, Faulted) and run.ending.launch is not None


def sketches_of(run: Run) -> tuple[Sketch, ...]:
    """What of a run another one is compared with."""
    return run.sketches if isinstance(run, PairedRun) else tuple(map(Sketch.of, run.results))


def draw(case: Case) -> int:
    """A number to choose the second run by: decided by the seed alone, so that it stays while other parts shrink."""
    return case.seed // ONE_CASE_IN


def with_another_config(case: Case, launches: Iterable[Launch]) -> tuple[str, Case] | None:
    """An autotuned kernel, and the case with a config of it that did not run; None where no kernel is autotuned.

    The index is chosen by the seed, not relative to the one that ran: shrinking towards config 0 keeps the comparison.
    """
    tuned = {launch.kernel: launch for launch in launches if launch.config_count > 1}
    if not tuned:
        return None
    launch = tuned[sorted(tuned)[draw(case) % len(tuned)]]
    index = draw(case) % launch.config_count
    if index == launch.config_index:
        index = (index + 1) % launch.config_count
    return launch.kernel, replace(case, configs={**case.configs, launch.kernel: index})


def launch_of(launches: Iterable[Launch], kernel: str) -> Launch | None:
    """The kernel's first launch; None where it was not launched."""
    return next((launch for launch in launches if launch.kernel == kernel), None)


def is_sampled(case: Case) -> bool:
    """Whether this case is one of those that are run on another SM count and with another config."""
    return case.seed % ONE_CASE_IN == 0


def order_matters(launches: Iterable[Launch], memory: Iterable[MemoryEvent]) -> bool:
    """Whether the order of programs can show: through atomics, or where programs meet in memory."""
    return any(launch.atomics for launch in launches) or any(
        isinstance(event, OrderDependence) or (isinstance(event, Overlap) and not event.same_bytes) for event in memory
    )
