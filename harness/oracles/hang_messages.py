"""Cases that gave no answer, in words: who did not come to an end, and where."""

from harness.model.run import HungParty, Run, TimedOut

VIRTUAL = "virtual"

COMPILING = (
    "The compiler had not come to an end with this kernel by then: whoever calls the library waits as long, or forever."
)
SPINNING = "The kernel never ends: whoever waits for the GPU waits forever, and others that share it wait as well."
AT_WORK = (
    "The virtual GPU had not come to the launch's end: a loop that never ends, or a case too large for the time limit."
)
HOST = (
    "Host code of the library waits for something that never comes, or never leaves a loop; the GPU has nothing to do."
)
INDUCED = (
    "The harness pretends {pretended} SMs on a GPU that has {real}.  Programs that wait for each other across the "
    "whole grid wait for some that do not fit there; with as many SMs they may come to their end: try the virtual GPU."
)
UNKNOWN = "A kernel or its host code waits for something that never comes."


def kernel(silent: TimedOut) -> str:
    """The kernel at fault; empty where the host is, whichever kernel it had launched."""
    return "" if silent.waiting is HungParty.HOST else silent.launch or ""


def is_induced(run: Run, silent: TimedOut) -> bool:
    """Whether the GPU spins with more SMs pretended than it has: that can be the pretence's own doing."""
    real = run.hardware.sm_count if run.hardware else 0
    return silent.waiting is HungParty.DEVICE and 0 < real < run.case.device.sm_count


def meaning_of_induced(run: Run, silent: TimedOut) -> str:
    """As `meaning`, with the pretence named."""
    assert run.hardware
    said = INDUCED.format(pretended=run.case.device.sm_count, real=run.hardware.sm_count)
    return said + meaning(silent, run.engine).removeprefix(SPINNING)


def place(silent: TimedOut) -> str:
    """What does not vary from run to run: who hangs, and where if that stays.

    At which line of its loop a device spins, or in which function of it a host is, may be another at each look.
    """
    match silent.waiting:
        case HungParty.COMPILER:
            return "compiles without end"
        case HungParty.DEVICE:
            return "spins on the device"
        case HungParty.UNKNOWN:
            return "no answer"
        case HungParty.HOST if silent.held_by:
            return f"host waits ({silent.held_by}){_waiting_where(silent)}"
        case HungParty.HOST:
            return "host runs on"


def sentence(silent: TimedOut, engine: str) -> str:
    """Who hangs where, after how long, and what an autotuner had hidden before."""
    hidden = "".join(f"; before, {one}" for one in silent.swallowed)
    return f"no answer came within {silent.limit_s:g} s{_who(silent, engine)}{hidden}"


def meaning(silent: TimedOut, engine: str) -> str:
    """What that leads to, and the evidence for it."""
    seen = f"  Seen: {'; '.join(silent.evidence)}." if silent.evidence else ""
    return f"{_meaning(silent, engine)}{seen}"


def _who(silent: TimedOut, engine: str) -> str:
    launched = f" after launch of {silent.launch}" if silent.launch else ""
    at = f" ({silent.source})" if silent.source else ""
    match silent.waiting:
        case HungParty.COMPILER:
            return f": the compiler works on {silent.launch or 'a kernel'}"
        case HungParty.DEVICE if engine == VIRTUAL:
            return f": the virtual GPU is at work on {silent.launch}"
        case HungParty.DEVICE:
            return f": the device spins in {silent.launch or 'a kernel'}{at}"
        case HungParty.UNKNOWN:
            return f" while {silent.launch} was launched" if silent.launch else ""
        case HungParty.HOST if silent.held_by:
            return f": the host waits ({silent.held_by}){_in(silent)}{at}{launched}"
        case HungParty.HOST:
            return f": the host runs on{_in(silent)}{launched}"


def _meaning(silent: TimedOut, engine: str) -> str:
    match silent.waiting:
        case HungParty.COMPILER:
            return COMPILING
        case HungParty.DEVICE:
            return AT_WORK if engine == VIRTUAL else SPINNING
        case HungParty.HOST:
            return HOST
        case HungParty.UNKNOWN:
            return UNKNOWN


def _waiting_where(silent: TimedOut) -> str:
    if silent.source is not None:
        return f" at {silent.source}"
    return f" after launch of {silent.launch}" if silent.launch else ""


def _in(silent: TimedOut) -> str:
    if not silent.function:
        return ""
    file = f" ({silent.source.file.rpartition('/')[2]})" if silent.source and not silent.held_by else ""
    return f" in {silent.function}{file}"
