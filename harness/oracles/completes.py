"""The promise that every case runs to its end, without an exception, a crash or a hang."""

import re
from dataclasses import dataclass

from harness.model.case import Case, Scale
from harness.model.flaw_kind import FlawKind
from harness.model.launch_difference import Plainer
from harness.model.paired_run import SecondRun, faulted_on_hardware_only
from harness.model.run import (
    Completed,
    Crashed,
    Deadlocked,
    Faulted,
    HungParty,
    OutOfMemory,
    Overtime,
    Raised,
    Refused,
    Run,
    Source,
    TimedOut,
    Unsupported,
)
from harness.model.verdict import Abstain, Fail, Pass, Severity, Signature, Verdict
from harness.oracles import deadlock_messages, hang_messages
from harness.oracles.agreement import EXPLAINED_BY
from harness.oracles.base import Evidence
from harness.oracles.compute_sanitizer import ended_by_tool
from harness.oracles.endings import (
    SUITE_PHASES,
    ResponsibleOracle,
    describe,
    fails_alike,
    is_gone,
    responsible_oracle,
)
from harness.oracles.traits import Causality, PromiseScope, Proof, Traits

MESSAGE_CLASS_LENGTH = 80
WORDS_LENGTH = 300
ABORTING = re.compile(r"\bAssertion\b|LLVM ERROR|terminate called|what\(\):")
"""The beginnings of the lines in which libc, LLVM and C++ explain why a process aborts."""

RAISED = (
    "The library cannot run this input on this GPU, and raises something else than what its op declares for refusals."
)
RAISED_BY_OP = (
    "The suite's own function raises this, so the suite is to be corrected, unless the line calls compiled code of the "
    "library."
)
KILLED = "which another process or Linux sends, as when the machine's memory is full"
CRASHED = "On a GPU the caller's process would die with it, or go on with a CUDA context that is lost."
FAULTED = "The process's CUDA context is lost: every later call fails, and what was in flight with it."
GONE = f"; it does not end so once {Plainer.UNOPTIMISED}"
STAYS = f"; it ends so, too, where {Plainer.UNOPTIMISED}"
BY_TOOL = "what a sanitizer reports first ends the CUDA context, and is judged by itself"
SLOW = "The case is slow and does not hang: a longer --time-limit lets it be judged."


class Completes:
    """Fails on crashes, hangs and exceptions, except those that `resources` and `scratch-memory` explain better."""

    name = "completes"
    promise = "Every legal case runs forward and backward to its end, without an exception, a crash or a hang."
    traits = Traits(
        rank=0,
        flaw=FlawKind.EXCEPTION,
        causality=Causality.ENDING,
        scope=PromiseScope.LAUNCH,
        second_run=SecondRun.BUILD,
        judges_oversized=True,
        proof=Proof.EXCEPTION,
    )

    def paired_runs(self, run: Run) -> tuple[Case, ...]:
        """Request unoptimised code of the same case if only the hardware GPU faulted."""
        return (run.case,) if faulted_on_hardware_only(run) else ()

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Return exactly one verdict."""
        run = evidence.run
        if ended_by_tool(run):
            return (Abstain(oracle=self.name, reason=BY_TOOL),)
        match run.ending:
            case Completed():
                return (Pass(oracle=self.name) if run.overtime is None else _judge_slow(run, run.overtime),)
            case Raised() as raised:
                return (_judge_raised(run, raised),)
            case Crashed() as crashed:
                return (_judge_crashed(run, crashed),)
            case TimedOut() as timed_out if is_in_suite(timed_out):
                reason = f"{describe(timed_out)}: the suite's own code was at work, in phase {timed_out.phase}"
                return (Abstain(oracle=self.name, reason=reason),)
            case TimedOut() as timed_out:
                return (_judge_timed_out(run, timed_out),)
            case Faulted() as faulted:
                return (_judge_faulted(run, faulted, next(iter(evidence.paired_runs), None)),)
            case Deadlocked() as deadlocked:
                return (_judge_deadlocked(run, deadlocked),)
            case Refused() | Unsupported() | OutOfMemory():
                return (Abstain(oracle=self.name, reason=describe(run.ending)),)


ORACLES = (Completes(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """A failure without the parts that all failures of this oracle have in common."""

    kernel: str
    place: str
    message: str
    meaning: str
    source: Source | None = None
    severity: Severity = Severity.ERROR

    def of(self, run: Run) -> Fail:
        """Return the failure of this run."""
        return Fail(
            signature=Signature(
                oracle=Completes.name, severity=self.severity, op=run.case.op, kernel=self.kernel, place=self.place
            ),
            message=self.message,
            meaning=self.meaning,
            source=self.source,
            launch_index=_last_launch(run, self.kernel),
        )


def _last_launch(run: Run, kernel: str) -> int | None:
    """Return the index of the kernel's last launch: none follows the one that ends a case."""
    own = [index for index, launch in enumerate(run.launches) if launch.kernel == kernel]
    return own[-1] if own else None


def _judge_raised(run: Run, raised: Raised) -> Verdict:
    match responsible_oracle(raised):
        case ResponsibleOracle.SUITE:
            at = f" ({raised.source})" if raised.source else ""
            reason = f"the suite failed: {raised.kind} in phase {raised.phase}: {main_line(raised.message)}{at}"
            return Abstain(oracle=Completes.name, reason=reason)
        case ResponsibleOracle.RESOURCES:
            return Abstain(oracle=Completes.name, reason=f"{raised.kind} is judged by `resources`")
        case ResponsibleOracle.SCRATCH_MEMORY:
            return Abstain(oracle=Completes.name, reason="a missing allocator is judged by `scratch-memory`")
        case ResponsibleOracle.COMPLETES:
            at = f" ({raised.source})" if raised.source else ""
            cause = f", because of {_cause(raised)}" if raised.cause else ""
            where = "by the suite, in the op's own function" if raised.in_op else f"in phase {raised.phase}"
            return _Failure(
                kernel=raised.launch or "",
                place=f"{raised.kind}: {message_class(raised.message)}{at}",
                message=f"{raised.kind} was raised {where}: {main_line(raised.message)}{at}{cause}",
                meaning=RAISED_BY_OP if raised.in_op else RAISED,
                source=raised.source,
            ).of(run)


def _cause(raised: Raised) -> str:
    """Return class and main line of the exception that caused the one raised."""
    kind, _, text = raised.cause.partition(": ")
    return f"{kind}: {main_line(text)}"


def _judge_crashed(run: Run, crashed: Crashed) -> Verdict:
    if crashed.was_killed:
        return Abstain(oracle=Completes.name, reason=f"{describe(crashed)}, {KILLED}")
    meanwhile = f" while {crashed.launch} was {crashed.doing}" if crashed.launch else ""
    words = last_words(crashed.log_tail) if crashed.signal == "SIGABRT" else ""
    return _Failure(
        kernel=crashed.launch or "",
        place=f"signal {crashed.signal}" if crashed.signal else f"status {crashed.status}",
        message=": ".join(filter(None, (f"{describe(crashed)}{meanwhile}", words))),
        meaning=CRASHED,
    ).of(run)


def _judge_faulted(run: Run, faulted: Faulted, unoptimised: Run | None) -> Fail:
    so_built, meaning = "", FAULTED
    if unoptimised is not None and is_gone(run, unoptimised):
        so_built, meaning = GONE, EXPLAINED_BY[Plainer.UNOPTIMISED]
    elif unoptimised is not None and fails_alike(run, unoptimised):
        so_built = STAYS
    at = f" ({faulted.source})" if faulted.source else ""
    return _Failure(
        kernel=faulted.launch or "",
        place=f"{faulted.fault}{at}",
        message=f"{describe(faulted)}{at}: {faulted.message}{so_built}",
        meaning=meaning,
        source=faulted.source,
    ).of(run)


def _judge_deadlocked(run: Run, deadlocked: Deadlocked) -> Fail:
    source = deadlocked.waits[0].source if deadlocked.waits else None
    return _Failure(
        kernel=deadlocked.kernel,
        place=f"deadlock ({source})" if source else "deadlock",
        message=deadlock_messages.sentence(deadlocked),
        meaning=deadlock_messages.meaning(deadlocked),
        source=source,
    ).of(run)


def _judge_timed_out(run: Run, timed_out: TimedOut) -> Fail:
    has_too_many_sms = hang_messages.has_too_many_sms(run, timed_out)
    meaning = hang_messages.meaning_of_too_many_sms if has_too_many_sms else hang_messages.meaning
    return _Failure(
        severity=Severity.WARNING if has_too_many_sms else Severity.ERROR,
        kernel=hang_messages.kernel(timed_out),
        place=hang_messages.place(timed_out) + ", more SMs pretended than there are" * has_too_many_sms,
        message=hang_messages.sentence(timed_out, run.engine),
        meaning=meaning(run, timed_out),
        source=timed_out.source if timed_out.held_by or timed_out.waiting is HungParty.DEVICE else None,
    ).of(run)


def is_in_suite(timed_out: TimedOut) -> bool:
    """Return True if the limit passed while the suite made inputs or computed the definition.

    The library has returned by then, or was not called yet.
    """
    return timed_out.phase in SUITE_PHASES and timed_out.waiting in {HungParty.HOST, HungParty.UNKNOWN}


def _judge_slow(run: Run, overtime: Overtime) -> Verdict:
    suite_s = sum(run.seconds.get(phase, 0.0) for phase in SUITE_PHASES)
    if overtime.took_s - suite_s <= overtime.limit_s:
        reason = f"the case was slow, but {suite_s:.1f} of its {overtime.took_s:.1f} s went to the suite's own code"
        return Abstain(oracle=Completes.name, reason=reason)
    if run.case.scale is Scale.LONG and run.engine_traits.has_provenance:
        return Abstain(oracle=Completes.name, reason="the emulation of a long case takes more than its time limit")
    return _Failure(
        severity=Severity.WARNING,
        kernel="",
        place="slow",
        message=f"the case completed after {overtime.took_s:.1f} s, past its time limit of {overtime.limit_s:g} s",
        meaning=SLOW,
    ).of(run)


def last_words(log: str) -> str:
    """Return the line that explains why a process aborted: the last assertion, otherwise the last line.

    Lines from Python's own list of stacks on are ignored.
    """
    printed = [line.strip() for line in log.partition("Fatal Python error")[0].splitlines() if line.strip()]
    assertions = [line for line in printed if ABORTING.search(line)]
    return (assertions or printed or [""])[-1][-WORDS_LENGTH:]


def main_line(message: str) -> str:
    """Return the line of an exception's text that says what went wrong, usually the first.

    A Triton compile error lists code first, so its last line counts.  If it has no text of its own, that is the code
    above the caret.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip(" ^")]
    if not lines:
        return "no message"
    return lines[-1] if re.fullmatch(r"at \d+:\d+:", lines[0]) else lines[0]


def message_class(message: str) -> str:
    """Return the message with `#` for addresses, numbers and lists of numbers, which vary from case to case."""
    line = re.sub(r"0x[0-9a-fA-F]+", "#", main_line(message))
    line = re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "#", line)
    return re.sub(r"#(, #)+", "#", line)[:MESSAGE_CLASS_LENGTH]
