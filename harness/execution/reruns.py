"""The life of a case in a worker: its main run, then the reruns that this run requests.

A rerun computes the case again, right after its main run and in the same process, with one thing changed.  For a
watched launch it executes the launch again.  The main run is a value before the first rerun begins.  So it alone
decides which reruns follow, and none of them changes what it recorded.  Runs in other processes are paired runs.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count
from math import prod
from typing import Protocol, TypeVar

from harness.execution.paired_run_policy import ONE_CASE_IN, choice_number, is_sampled
from harness.model.case import CallContext, Case, LaneFill, Scale, ValueDistribution
from harness.model.device import Vendor
from harness.model.op import Op
from harness.model.paired_run import SecondRun
from harness.model.run import Completed, Raised, Run, UndefinedLanes
from harness.model.triton_errors import REFUSED_BUILDS

EXACT_SHARE = 8
"""One case of so many has an exact run although its results are right: it takes about as long as the case."""
MOST_PROGRAMS_AGAIN = 8192
"""Programs of all launches beyond which neither autotuners nor other rows are checked: it would take long."""

F = TypeVar("F")


class Rerun(StrEnum):
    """What a rerun changes."""

    EXACT = "exact"
    """The arithmetic: exact values beside the rounded ones."""
    LANE_FILL = "lane_fill"
    """The values of undefined lanes."""
    TUNING = "tuning"
    """The autotuners tune."""
    KEYS = "keys"
    """The keys of autotuners are surveyed, and entries of their caches shared."""
    THREADS = "threads"
    """Another thread calls the op while the first autotuner tunes."""
    LATER = "later"
    """The op is called with other sizes before, or fails before."""
    GRAPH = "graph"
    """The call is captured into a CUDA graph."""
    ROWS = "rows"
    """The rows that are computed together."""


AUTOTUNER_CHECKS = (Rerun.TUNING, Rerun.KEYS, Rerun.THREADS)
"""A sampled case gets the one whose position is the remainder of its `choice_number`."""
CALL_CHECKS = (Rerun.LATER, None, Rerun.GRAPH, None)
"""The same for checks of later calls, which cost up to two more calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunRequest:
    """A request to compute the case of a run again."""

    rerun: Rerun
    first: Run
    """The main run, with the outcomes of earlier reruns."""


def requested_reruns(run: Run, op: Op | None = None) -> Iterator[Rerun]:
    """Yield the reruns that a main run requests, in their order; `op` is None for a watched launch."""
    is_complete = isinstance(run.ending, Completed)
    if is_complete and needs_exact_run(run, op):
        yield Rerun.EXACT
    if is_complete and needs_other_lanes(run):
        yield Rerun.LANE_FILL
    if op is not None and needs_other_rows(op, run):
        yield Rerun.ROWS
    if op is not None and (check := needed_autotuner_check(op, run)) is not None:
        yield check
    if op is not None and is_complete and (again := call_check(op, run.case)) is not None:
        yield again


def with_reruns(first: Run, op: Op | None, served: frozenset[Rerun], serve: Callable[[RerunRequest], Run]) -> Run:
    """Return the main run with the outcomes of the reruns that it requests and the engine serves, one after another."""
    run = first
    for rerun in requested_reruns(first, op):
        if rerun in served:
            run = serve(RerunRequest(rerun=rerun, first=run))
    return run


def needs_exact_run(run: Run, op: Op | None = None) -> bool:
    """Return True if a result is wrong, or the case belongs to the share that is computed exactly in any case."""
    case = run.case
    if case.scale is Scale.OVERSIZED or not run.results:
        return False
    if any(launch.model for launch in run.launches):  # another runtime computes between the kernels
        return False
    digest = case.digest if op is None else op.seed_digest(case)
    is_drawn = case.scale is Scale.USUAL and int(digest, 16) % EXACT_SHARE == 0
    return case.is_exact or is_drawn or not all(result.is_right for result in run.results)


def needs_other_lanes(run: Run) -> bool:
    """Return True if the case met undefined lanes, filled them with zero, and its results can be compared."""
    case = run.case
    is_plain = case.lane_fill is LaneFill.ZERO and case.scale is Scale.USUAL
    return is_plain and any(isinstance(event, UndefinedLanes) for event in run.memory)


def needs_other_rows(op: Op, run: Run) -> bool:
    """Return True if rows of a sampled case are computed again in other company, as the op declares them."""
    if not (asks_for_other_rows(op, run.case) and run.results and isinstance(run.ending, Completed)):
        return False
    return _programs(run) <= MOST_PROGRAMS_AGAIN


def asks_for_other_rows(op: Op, case: Case) -> bool:
    """Return True if `needs_other_rows` may hold for a run of this case."""
    is_plain = case.scale is Scale.USUAL and case.values is not ValueDistribution.NAN_TAINTED
    return bool(op.independent or op.sequences) and is_plain and is_sampled(case)


def needed_autotuner_check(op: Op, run: Run) -> Rerun | None:
    """Return the check of its autotuners that a case with some requests; None if it requests none.

    If none of a kernel's configs works, the autotuner tunes: that is where it chooses one all the same.
    """
    if isinstance(run.ending, Raised):
        return Rerun.TUNING if run.ending.kind in REFUSED_BUILDS and is_sampled(run.case) else None
    if not isinstance(run.ending, Completed) or _programs(run) > MOST_PROGRAMS_AGAIN:
        return None
    check = autotuner_check(run.case)
    return Rerun.KEYS if check is Rerun.THREADS and not op.threads else check


def autotuner_check(case: Case) -> Rerun | None:
    """Return what is checked of the autotuners of this case, if it has any; None if nothing is."""
    if not is_sampled(case) or case.scale is not Scale.USUAL or case.context is not CallContext.MAIN:
        return None
    return AUTOTUNER_CHECKS[choice_number(case) % len(AUTOTUNER_CHECKS)]


def call_check(op: Op, case: Case) -> Rerun | None:
    """Return what is checked of later calls of this case; None if nothing is."""
    if not is_sampled(case) or case.scale is not Scale.USUAL or case.context is not CallContext.MAIN:
        return None
    check = CALL_CHECKS[choice_number(case) % len(CALL_CHECKS)]
    has_graphs = op.graphs and case.device.vendor is not Vendor.INTEL
    return check if has_graphs or check is not Rerun.GRAPH else None


def fails_between(case: Case) -> bool:
    """Return True if a later call of this case comes after a call that fails, not after one with other sizes."""
    return choice_number(case) // len(CALL_CHECKS) % 2 == 1


def later_seeds(seed: int) -> tuple[int, ...]:
    """Return seeds near this one with later calls: after a call with other sizes, and after a call that fails."""
    number, turns = seed // ONE_CASE_IN, (0, 1)
    begin = number - number % (len(turns) * len(CALL_CHECKS)) + CALL_CHECKS.index(Rerun.LATER)
    return tuple(ONE_CASE_IN * (begin + turn * len(CALL_CHECKS)) for turn in turns)


def seed_asking(seed: int, second_runs: Collection[SecondRun]) -> int:
    """Return a seed near this one with which a case gets these second runs, as far as its seed decides about them.

    Of several checks of autotuners a case gets one.
    """
    if not any(map(decided_by_seed, second_runs)):
        return seed
    number = seed // ONE_CASE_IN
    for checks, others in ((AUTOTUNER_CHECKS, 1), (CALL_CHECKS, len(AUTOTUNER_CHECKS))):
        wanted = [place for place, check in enumerate(checks) if check and SecondRun(check.value) in second_runs]
        if wanted:
            place = wanted[number % len(wanted)]
            # Steps of the others' count leave what these decided.
            number = next(near for near in count(number - number % others, others) if near % len(checks) == place)
    return ONE_CASE_IN * number


def decided_by_seed(second_run: SecondRun) -> bool:
    """Return True if one case in `ONE_CASE_IN` gets the second run; others follow from what a case launches."""
    match second_run:
        case SecondRun.SM_COUNT | SecondRun.CONFIG | SecondRun.REPETITION:
            return True
        case SecondRun.TUNING | SecondRun.KEYS | SecondRun.THREADS | SecondRun.ROWS:
            return True
        case SecondRun.LATER | SecondRun.GRAPH:
            return True
        case SecondRun.ORDER | SecondRun.LANE_FILL | SecondRun.BUILD:
            return False


def _programs(run: Run) -> int:
    return sum(prod(launch.grid) for launch in run.launches)


def with_seconds(run: Run, seconds: Mapping[str, float]) -> Run:
    """Return the run with these seconds added, by part."""
    added = {part: run.seconds.get(part, 0.0) + more for part, more in seconds.items()}
    return replace(run, seconds={**run.seconds, **added})


class RecordingHandler(Protocol[F]):
    """Handles launches, and records their facts for the run in progress."""

    case_launches: F


@contextmanager
def recording(handler: RecordingHandler[F], facts: F) -> Generator[F]:
    """Record launches in these facts; afterwards in those from before again."""
    before, handler.case_launches = handler.case_launches, facts
    try:
        yield facts
    finally:
        handler.case_launches = before
