"""The messages about deadlocks: which programs wait for which cells, and on which GPUs."""

from harness.model.run import Deadlocked, Residency, Wait
from harness.oracles.memory_events import cell

TOO_FEW = (
    "Programs wait for others that begin only when these end: the launch hangs on every GPU that holds fewer at a time."
)
TOO_MANY = (
    "Programs that run side by side wait for each other, which they do not one after the other: the more of them a GPU "
    "holds, the surer the launch hangs."
)
ANYWHERE = "Nothing in the launch can change what the programs wait for: it hangs on every GPU."
UNKNOWN = "Programs wait for what no program that is running will change: the launch hangs."


def sentence(deadlocked: Deadlocked) -> str:
    """Return which programs wait for which cells, how many have not started, and at which SM counts it deadlocks."""
    have = "has" if deadlocked.not_started == 1 else "have"
    unstarted = f", {deadlocked.not_started} {have} not started" if deadlocked.not_started else ""
    return f"{deadlocked.kernel} deadlocks: {_waiting(deadlocked)}{unstarted}; {_sm_counts(deadlocked)}"


def meaning(deadlocked: Deadlocked) -> str:
    """Return the consequences of the deadlock."""
    match deadlocked.ends_with:
        case Residency.AT_LEAST:
            return TOO_FEW
        case Residency.AT_MOST:
            return TOO_MANY
        case Residency.NONE:
            return ANYWHERE
        case Residency.UNKNOWN:
            return UNKNOWN


def _waiting(deadlocked: Deadlocked) -> str:
    """Return for example `all 188 resident programs wait for counter[0] (barrier.py:14)`."""
    resident = deadlocked.resident
    programs = "the only program" if deadlocked.programs == 1 else f"all {resident} resident programs"
    if not deadlocked.waits:
        return f"{programs} {'runs' if resident == 1 else 'run'} in circles without reading any memory"
    first = deadlocked.waits[0]
    if first.programs == resident:
        return f"{programs} {'waits' if resident == 1 else 'wait'} for {_cells(first)}"
    groups = [f"{_programs(wait)} for {_cells(wait)}" for wait in deadlocked.waits]
    elsewhere = resident - sum(wait.programs for wait in deadlocked.waits)
    more = f", {elsewhere} more for other cells" if elsewhere else ""
    return f"all {resident} resident programs wait, {', '.join(groups)}{more}"


def _programs(wait: Wait) -> str:
    named = ", ".join(map(str, wait.first_programs))
    if wait.programs == 1:
        return f"program {named}"
    return f"programs {named}" if wait.programs == len(wait.first_programs) else f"programs {named}, …"


def _cells(wait: Wait) -> str:
    more = f" and {wait.cells - 1} more" if wait.cells > 1 else ""
    what = cell(wait.argument, wait.index) if wait.index else wait.argument
    return f"{what}{more}{f' ({wait.source})' if wait.source else ''}"


def _sm_counts(deadlocked: Deadlocked) -> str:
    held = deadlocked.programs_per_sm
    here = f"at {held} {'program' if held == 1 else 'programs'} an SM, as here with {_sms(deadlocked.sm_count)}"
    match deadlocked.ends_with:
        case Residency.AT_LEAST:
            least = _sms(-(-deadlocked.limit // held))
            return f"it needs {deadlocked.limit} programs resident: deadlocks below {least} {here}"
        case Residency.AT_MOST:
            least = _sms(deadlocked.limit // held + 1)
            return f"it ends with at most {deadlocked.limit} resident: deadlocks from {least} up {here}"
        case Residency.NONE:
            return "nothing changes that, however many programs are resident"
        case Residency.UNKNOWN:
            return f"with how many SMs it would end is not known, {here}"


def _sms(count: int) -> str:
    return "1 SM" if count == 1 else f"{count} SMs"
