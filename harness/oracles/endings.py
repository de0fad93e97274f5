"""What an ending lets an oracle say.

What a run shows counts however it ended: an overlap seen before an exception was an overlap.  What it does not show
counts only if it completed.  Owns that rule, and which of the oracles that judge exceptions a `Raised` belongs to.
"""

from enum import Enum, auto

from harness.errors import SuiteError
from harness.model.ending import REFUSED_BUILDS
from harness.model.run import (
    Completed,
    Crashed,
    Deadlocked,
    Ending,
    Faulted,
    OutOfMemory,
    Raised,
    Refused,
    Run,
    TimedOut,
    Unsupported,
)

NO_ALLOCATOR = "Kernel requires a runtime memory allocation, but no allocator was set"
"""What Triton's `NullAllocator` says (3.6 to 3.9); it raises a plain RuntimeError, so only the text tells it apart."""

SUITE_PHASES = frozenset({"inputs", "reference", "compare"})
"""Phases in which only the suite's own code runs."""

WATCHED = frozenset({"virtual", "cuda,virtual"})
"""The engines that see every access; elsewhere the absence of memory events says nothing."""


def ends_so_too(run: Run, again: Run) -> bool:
    """Whether the kernel that cost a real GPU its context did so once more, beside."""
    if isinstance(run.ending, Faulted) and isinstance(again.ending, Faulted):
        return run.ending.launch == again.ending.launch
    return False


def is_gone(run: Run, again: Run) -> bool:
    """Whether the launch that cost a real GPU its context was made once more, beside, and did not.

    What came after it may be anything: nobody knows how the first run would have gone on.
    """
    if not isinstance(run.ending, Faulted) or run.agreement is None or again.agreement is None:
        return False
    kernel, before = run.ending.launch, run.agreement
    is_left_out = again.agreement.skips_of(kernel) > before.skips_of(kernel)
    return again.agreement.launches > before.launches and not is_left_out and not ends_so_too(run, again)


class ResponsibleOracle(Enum):
    """Who answers for an exception."""

    SUITE = auto()
    RESOURCES = auto()
    SCRATCH_MEMORY = auto()
    COMPLETES = auto()


def judge_of(raised: Raised) -> ResponsibleOracle:
    """The one judge of this exception."""
    if raised.phase in SUITE_PHASES or raised.kind == SuiteError.__name__:
        return ResponsibleOracle.SUITE
    if raised.kind in REFUSED_BUILDS:
        return ResponsibleOracle.RESOURCES
    if NO_ALLOCATOR in raised.message:
        return ResponsibleOracle.SCRATCH_MEMORY
    return ResponsibleOracle.COMPLETES


def describe(ending: Ending) -> str:
    """How the case ended, as half a sentence: `the process died of SIGSEGV`."""
    match ending:
        case Completed():
            return "the case completed"
        case Raised():
            return f"{ending.kind} was raised in phase {ending.phase}"
        case Refused():
            return f"the library declined the case: {ending.message}"
        case Unsupported():
            place = "".join(f"{part}, " for part in (ending.kernel, ending.source) if part).removesuffix(", ")
            kept = f"; its TTIR: {ending.ttir_file}" if ending.ttir_file else ""
            return f"the engine cannot execute {ending.what} ({place}; Triton {ending.triton_version}{kept})"
        case Crashed():
            return (
                f"the process died of {ending.signal}"
                if ending.signal
                else f"the process left with status {ending.status}"
            )
        case TimedOut():
            return f"no answer came within {ending.limit_s:g} s"
        case Faulted():
            return f"{ending.fault} in {ending.launch}" if ending.launch else f"{ending.fault}: {ending.message}"
        case Deadlocked():
            return f"the programs of {ending.kernel} wait forever"
        case OutOfMemory():
            limit = f"the case needs more than the {ending.limit_bytes} bytes that its worker may have"
            return limit if ending.limit_bytes else f"memory ran out: {ending.message}"


def unfinished(run: Run) -> str | None:
    """Why the absence of something in this run proves nothing; None for a run that completed."""
    return None if isinstance(run.ending, Completed) else describe(run.ending)


def unwatched(run: Run) -> str | None:
    """Why the absence of memory events in this run proves nothing; None where memory was watched to the end."""
    if reason := unfinished(run):
        return reason
    if run.engine not in WATCHED:
        return f"the {run.engine} engine does not see memory accesses"
    if not run.launches:
        return "no kernel was launched"
    return None
