"""The conclusions that an oracle may draw from how a case ended.

An event counts however the run ended: an overlap before an exception is an overlap.  The absence of events counts only
if the run completed.  This file also decides which oracle is responsible for an exception.
"""

from enum import Enum, auto

from harness.errors import SuiteError
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
from harness.model.triton_errors import NO_ALLOCATOR, REFUSED_BUILDS

NO_LAUNCH = "no kernel was launched"

SUITE_PHASES = frozenset({"inputs", "reference", "compare"})
"""Phases in which only the suite's own code runs."""


def fails_alike(run: Run, again: Run) -> bool:
    """Return True if the same kernel faulted on the hardware GPU in both runs."""
    if isinstance(run.ending, Faulted) and isinstance(again.ending, Faulted):
        return run.ending.launch == again.ending.launch
    return False


def is_gone(run: Run, again: Run) -> bool:
    """Return True if the launch that faulted on the hardware GPU was repeated in the second run, and did not fault.

    Later launches of the second run may end in any way: the first run did not reach them.
    """
    if not isinstance(run.ending, Faulted) or run.agreement is None or again.agreement is None:
        return False
    kernel, before = run.ending.launch, run.agreement
    is_skipped = again.agreement.skips_of(kernel) > before.skips_of(kernel)
    return again.agreement.launches > before.launches and not is_skipped and not fails_alike(run, again)


class ResponsibleOracle(Enum):
    """The oracle that judges an exception, or the suite whose mistake it is."""

    SUITE = auto()
    RESOURCES = auto()
    SCRATCH_MEMORY = auto()
    COMPLETES = auto()


def responsible_oracle(raised: Raised) -> ResponsibleOracle:
    if raised.phase in SUITE_PHASES or raised.kind == SuiteError.__name__:
        return ResponsibleOracle.SUITE
    if raised.kind in REFUSED_BUILDS:
        return ResponsibleOracle.RESOURCES
    if NO_ALLOCATOR in raised.message:
        return ResponsibleOracle.SCRATCH_MEMORY
    return ResponsibleOracle.COMPLETES


def describe(ending: Ending) -> str:
    """Return how the case ended, as a clause: `the process died of SIGSEGV`."""
    match ending:
        case Completed():
            return "the case completed"
        case Raised():
            return f"{ending.kind} was raised in phase {ending.phase}"
        case Refused():
            return f"the library declined the case: {ending.message}"
        case Unsupported():
            place = ", ".join(str(part) for part in (ending.kernel, ending.source) if part)
            kept = f"its TTIR: {ending.ttir_file}" if ending.ttir_file else ""
            version = f"Triton {ending.triton_version}" if ending.triton_version else ""
            details = "; ".join(filter(None, (place, version, kept)))
            return f"the engine cannot execute {ending.what}{f' ({details})' if details else ''}"
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
    """Return why the absence of a fact in this run proves nothing; None if the run completed."""
    return None if isinstance(run.ending, Completed) else describe(run.ending)


def untraced(run: Run) -> str | None:
    """Return why the absence of memory events proves nothing; None if every access was traced to the end."""
    if reason := unbounded(run):
        return reason
    if not run.engine_traits.has_shadow:
        return f"the {run.engine} engine does not see which programs touch a cell"
    return None


def unbounded(run: Run) -> str | None:
    """Return why the absence of stray accesses proves nothing; None if the bounds of every access were checked."""
    if reason := unfinished(run):
        return reason
    if not run.engine_traits.has_provenance:
        return f"the {run.engine} engine does not see memory accesses"
    if not run.launches:
        return NO_LAUNCH
    return None
