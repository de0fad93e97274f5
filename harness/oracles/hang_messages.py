"""The messages about cases that gave no answer: which party hangs, and where."""

from harness.model.engine_traits import traits_of_engine
from harness.model.run import HungParty, Run, TimedOut

COMPILING = "The compiler had not finished this kernel by then: callers of the library wait as long, or forever."
SPINNING = "The kernel never ends: callers that wait for the GPU wait forever, and others that share it wait as well."
AT_WORK = "The virtual GPU had not finished the launch: a loop never ends, or the case is too large for the time limit."
HOST = (
    "Host code of the library waits for something that never comes, or never leaves a loop; the GPU has nothing to do."
)
TOO_MANY_SMS = (
    "The harness emulates {emulated} SMs on a GPU that has {real}.  Programs that wait for each other across the "
    "whole grid wait for some that do not fit there; with as many SMs they may end: try the virtual GPU."
)
UNKNOWN = "A kernel or its host code waits for something that never comes."


def kernel(timed_out: TimedOut) -> str:
    """Return the kernel at fault; empty if the host is at fault, whatever it had launched."""
    return "" if timed_out.waiting is HungParty.HOST else timed_out.launch or ""


def has_too_many_sms(run: Run, timed_out: TimedOut) -> bool:
    """Return True if the GPU spins while it emulates more SMs than it has, which may itself cause the hang."""
    real = run.hardware.sm_count if run.hardware else 0
    return timed_out.waiting is HungParty.DEVICE and 0 < real < run.case.device.sm_count


def meaning_of_too_many_sms(run: Run, timed_out: TimedOut) -> str:
    """Return the consequences of a hang that the emulated SM count may cause, and the evidence for the hang."""
    assert run.hardware
    text = TOO_MANY_SMS.format(emulated=run.case.device.sm_count, real=run.hardware.sm_count)
    return text + meaning(run, timed_out).removeprefix(SPINNING)


def place(timed_out: TimedOut) -> str:
    """Return the place of the hang as it stays from run to run; it is part of the signature.

    The line of its loop where a device spins, and the function where a host runs, may differ at every inspection.
    """
    match timed_out.waiting:
        case HungParty.COMPILER:
            return "compiles without end"
        case HungParty.DEVICE:
            return "spins on the device"
        case HungParty.UNKNOWN:
            return "no answer"
        case HungParty.HOST if timed_out.held_by:
            return f"host waits ({timed_out.held_by}){_waiting_at(timed_out)}"
        case HungParty.HOST:
            return "host runs on"


def sentence(timed_out: TimedOut, engine: str) -> str:
    """Return which party hangs, where, after how long, and the exceptions that an autotuner swallowed before."""
    hidden = "".join(f"; before, {error}" for error in timed_out.swallowed)
    return f"no answer came within {timed_out.limit_s:g} s{_who(timed_out, engine)}{hidden}"


def meaning(run: Run, timed_out: TimedOut) -> str:
    """Return the consequences of the hang, and the evidence for it."""
    seen = f"  Seen: {'; '.join(timed_out.evidence)}." if timed_out.evidence else ""
    return f"{_meaning(timed_out, run.engine)}{seen}"


def _who(timed_out: TimedOut, engine: str) -> str:
    launched = f" after launch of {timed_out.launch}" if timed_out.launch else ""
    at = f" ({timed_out.source})" if timed_out.source else ""
    match timed_out.waiting:
        case HungParty.COMPILER:
            return f": the compiler works on {timed_out.launch or 'a kernel'}"
        case HungParty.DEVICE if traits_of_engine(engine).is_virtual:
            return f": the virtual GPU is at work on {timed_out.launch}"
        case HungParty.DEVICE:
            return f": the device spins in {timed_out.launch or 'a kernel'}{at}"
        case HungParty.UNKNOWN:
            return f" while {timed_out.launch} was launched" if timed_out.launch else ""
        case HungParty.HOST if timed_out.held_by:
            return f": the host waits ({timed_out.held_by}){_in(timed_out)}{at}{launched}"
        case HungParty.HOST:
            return f": the host runs on{_in(timed_out)}{launched}"


def _meaning(timed_out: TimedOut, engine: str) -> str:
    match timed_out.waiting:
        case HungParty.COMPILER:
            return COMPILING
        case HungParty.DEVICE:
            return AT_WORK if traits_of_engine(engine).is_virtual else SPINNING
        case HungParty.HOST:
            return HOST
        case HungParty.UNKNOWN:
            return UNKNOWN


def _waiting_at(timed_out: TimedOut) -> str:
    if timed_out.source is not None:
        return f" at {timed_out.source}"
    return f" after launch of {timed_out.launch}" if timed_out.launch else ""


def _in(timed_out: TimedOut) -> str:
    if not timed_out.function:
        return ""
    file = f" ({timed_out.source.file.rpartition('/')[2]})" if timed_out.source and not timed_out.held_by else ""
    return f" in {timed_out.function}{file}"
