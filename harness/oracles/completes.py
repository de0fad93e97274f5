"""A case comes to its end."""

import re

from harness.model.case import Case
from harness.model.launch_difference import Plainer
from harness.model.paired_run import ended_there_alone
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
from harness.oracles.agreement import WITHOUT
from harness.oracles.base import Evidence
from harness.oracles.compute_sanitizer import ended_by_tool
from harness.oracles.endings import ResponsibleOracle, describe, ends_so_too, is_gone, judge_of

MESSAGE_CLASS_LENGTH = 80
WORDS_LENGTH = 300
ABORTING = re.compile(r"\bAssertion\b|LLVM ERROR|terminate called|what\(\):")
"""How C's library, LLVM and C++ begin to say why a process aborts."""

RAISED = (
    "The library cannot run this input on this GPU, and does not say so in the way that its op declares for refusals."
)
CRASHED = (
    "On a GPU the process of whoever calls the library would die with it, or go on with a CUDA context that is lost."
)
FAULTED = "The process's CUDA context is lost: every later call fails, and what was in flight with it."
IS_GONE = f"; it does not end so once {Plainer.UNOPTIMISED}"
STAYS = f"; it ends so, too, where {Plainer.UNOPTIMISED}"
BY_TOOL = "what a sanitizer reports first ends the CUDA context, and is judged by itself"
SLOW = "The case is slow and does not hang: a longer --time-limit lets it be judged."


class Completes:
    """Crashes, hangs and exceptions, save those that `resources` and `scratch-memory` explain better."""

    name = "completes"
    promise = "Every legal case runs forward and backward to its end, without an exception, a crash or a hang."

    def companions(self, run: Run) -> tuple[Case, ...]:
        """The case itself, as plainer code, where the real GPU lost its context and the virtual one saw nothing."""
        return (run.case,) if ended_there_alone(run) else ()

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Exactly one verdict."""
        run = evidence.run
        if ended_by_tool(run):
            return (Abstain(oracle=self.name, reason=BY_TOOL),)
        match run.ending:
            case Completed():
                return (Pass(oracle=self.name) if run.overtime is None else self._judge_slow(run, run.overtime),)
            case Raised() as raised:
                return (self._judge_raised(run, raised),)
            case Crashed() as crashed:
                return (self._judge_crashed(run, crashed),)
            case TimedOut() as silent:
                return (self._judge_silent(run, silent),)
            case Faulted() as faulted:
                return (self._judge_faulted(run, faulted, next(iter(evidence.companions), None)),)
            case Deadlocked() as deadlocked:
                return (self._judge_deadlocked(run, deadlocked),)
            case Refused() | Unsupported() | OutOfMemory():
                return (Abstain(oracle=self.name, reason=describe(run.ending)),)

    def _judge_raised(self, run: Run, raised: Raised) -> Verdict:
        match judge_of(raised):
            case ResponsibleOracle.SUITE:
                reason = f"the suite failed: {raised.kind} in phase {raised.phase}: {telling_line(raised.message)}"
                return Abstain(oracle=self.name, reason=reason)
            case ResponsibleOracle.RESOURCES:
                return Abstain(oracle=self.name, reason=f"{raised.kind} is judged by `resources`")
            case ResponsibleOracle.SCRATCH_MEMORY:
                return Abstain(oracle=self.name, reason="a missing allocator is judged by `scratch-memory`")
            case ResponsibleOracle.COMPLETES:
                where = f" ({raised.source})" if raised.source else ""
                return self._fail(
                    run,
                    kernel=raised.launch or "",
                    place=f"{raised.kind}: {message_class(raised.message)}{where}",
                    message=f"{raised.kind} was raised in phase {raised.phase}: {telling_line(raised.message)}{where}",
                    meaning=RAISED,
                    source=raised.source,
                )

    def _judge_crashed(self, run: Run, crashed: Crashed) -> Fail:
        meanwhile = f" while {crashed.launch} was {crashed.doing}" if crashed.launch else ""
        words = last_words(crashed.log_tail) if crashed.signal == "SIGABRT" else ""
        return self._fail(
            run,
            kernel=crashed.launch or "",
            place=f"signal {crashed.signal}" if crashed.signal else f"status {crashed.status}",
            message=": ".join(filter(None, (f"{describe(crashed)}{meanwhile}", words))),
            meaning=CRASHED,
        )

    def _judge_faulted(self, run: Run, faulted: Faulted, again: Run | None) -> Fail:
        so_built, meaning = "", FAULTED
        if again is not None and is_gone(run, again):
            so_built, meaning = IS_GONE, WITHOUT[Plainer.UNOPTIMISED]
        elif again is not None and ends_so_too(run, again):
            so_built = STAYS
        where = f" ({faulted.source})" if faulted.source else ""
        return self._fail(
            run,
            kernel=faulted.launch or "",
            place=f"{faulted.fault}{where}",
            message=f"{describe(faulted)}{where}: {faulted.message}{so_built}",
            meaning=meaning,
            source=faulted.source,
        )

    def _judge_deadlocked(self, run: Run, deadlocked: Deadlocked) -> Fail:
        source = deadlocked.waits[0].source if deadlocked.waits else None
        return self._fail(
            run,
            kernel=deadlocked.kernel,
            place=f"deadlock ({source})" if source else "deadlock",
            message=deadlock_messages.sentence(deadlocked),
            meaning=deadlock_messages.meaning(deadlocked),
            source=source,
        )

    def _judge_silent(self, run: Run, silent: TimedOut) -> Fail:
        induced = hang_messages.is_induced(run, silent)
        return self._fail(
            run,
            severity=Severity.WARNING if induced else Severity.ERROR,
            kernel=hang_messages.kernel(silent),
            place=hang_messages.place(silent) + ", more SMs pretended than there are" * induced,
            message=hang_messages.sentence(silent, run.engine),
            meaning=hang_messages.meaning_of_induced(run, silent)
            if induced
            else hang_messages.meaning(silent, run.engine),
            source=silent.source if silent.held_by or silent.waiting is HungParty.DEVICE else None,
        )

    def _judge_slow(self, run: Run, overtime: Overtime) -> Fail:
        return self._fail(
            run,
            severity=Severity.WARNING,
            kernel="",
            place="slow",
            message=f"the case completed after {overtime.took_s:.1f} s, past its time limit of {overtime.limit_s:g} s",
            meaning=SLOW,
        )

    def _fail(  # noqa: PLR0913 - what a failure consists of
        self,
        run: Run,
        *,
        kernel: str,
        place: str,
        message: str,
        meaning: str,
        source: Source | None = None,
        severity: Severity = Severity.ERROR,
    ) -> Fail:
        return Fail(
            signature=Signature(oracle=self.name, severity=severity, op=run.case.op, kernel=kernel, place=place),
            message=message,
            meaning=meaning,
            source=source,
        )


def last_words(log: str) -> str:
    """Why a process that aborted did so: what it printed before Python listed its stacks, best an assertion."""
    printed = [line.strip() for line in log.partition("Fatal Python error")[0].splitlines() if line.strip()]
    assertions = [line for line in printed if ABORTING.search(line)]
    return (assertions or printed or [""])[-1][-WORDS_LENGTH:]


def telling_line(message: str) -> str:
    """The line that says what went wrong: the first, or the last of a Triton compile error, which lists code first.

    Where such an error has no words of its own, that is the code above the caret.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip(" ^")]
    if not lines:
        return "no message"
    return lines[-1] if re.fullmatch(r"at \d+:\d+:", lines[0]) else lines[0]


def message_class(message: str) -> str:
    """The message without what varies from case to case: addresses, numbers, and how many numbers stand in a list."""
    line = re.sub(r"0x[0-9a-fA-F]+", "#", telling_line(message))
    line = re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "#", line)
    return re.sub(r"#(, #)+", "#", line)[:MESSAGE_CLASS_LENGTH]
