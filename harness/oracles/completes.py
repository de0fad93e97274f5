"""A case comes to its end."""

import re

from harness.model.run import (
    Completed,
    Crashed,
    Deadlocked,
    OutOfMemory,
    Raised,
    Refused,
    Run,
    TimedOut,
    Unsupported,
)
from harness.model.verdict import Abstain, Fail, Pass, Severity, Signature, Verdict
from harness.oracles import deadlocks
from harness.oracles.base import Alone, Evidence
from harness.oracles.endings import Judge, describe, judge_of

MESSAGE_CLASS_LENGTH = 80

RAISED = (
    "The library cannot run this input on this GPU, and does not say so in the way that its op declares for refusals."
)
CRASHED = (
    "On a GPU the process of whoever calls the library would die with it, or go on with a CUDA context that is lost."
)
TIMED_OUT = "A kernel or its host code waits for something that never comes."


class Completes(Alone):
    """Crashes, hangs and exceptions, save those that `resources` and `scratch-memory` explain better."""

    name = "completes"
    promise = "Every legal case runs forward and backward to its end, without an exception, a crash or a hang."

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Exactly one verdict."""
        run = evidence.run
        match run.ending:
            case Completed():
                return (Pass(oracle=self.name),)
            case Raised() as raised:
                return (self._judge_raised(run, raised),)
            case Crashed() as crashed:
                how = f"signal {crashed.signal}" if crashed.signal else f"status {crashed.status}"
                return (self._fail(run, kernel=crashed.launch or "", place=how, meaning=CRASHED),)
            case TimedOut() as silent:
                return (self._fail(run, kernel=silent.launch or "", place="no answer", meaning=TIMED_OUT),)
            case Deadlocked() as deadlocked:
                return (self._judge_deadlocked(run, deadlocked),)
            case Refused() | Unsupported() | OutOfMemory():
                return (Abstain(oracle=self.name, reason=describe(run.ending)),)

    def _judge_raised(self, run: Run, raised: Raised) -> Verdict:
        match judge_of(raised):
            case Judge.SUITE:
                reason = f"the suite failed: {raised.kind} in phase {raised.phase}: {telling_line(raised.message)}"
                return Abstain(oracle=self.name, reason=reason)
            case Judge.RESOURCES:
                return Abstain(oracle=self.name, reason=f"{raised.kind} is judged by `resources`")
            case Judge.SCRATCH_MEMORY:
                return Abstain(oracle=self.name, reason="a missing allocator is judged by `scratch-memory`")
            case Judge.COMPLETES:
                where = f" ({raised.source})" if raised.source else ""
                return Fail(
                    signature=Signature(
                        oracle=self.name,
                        severity=Severity.ERROR,
                        op=run.case.op,
                        kernel=raised.launch or "",
                        place=f"{raised.kind}: {message_class(raised.message)}{where}",
                    ),
                    message=f"{raised.kind} was raised in phase {raised.phase}: {telling_line(raised.message)}{where}",
                    meaning=RAISED,
                    source=raised.source,
                )

    def _judge_deadlocked(self, run: Run, deadlocked: Deadlocked) -> Fail:
        source = deadlocked.waits[0].source if deadlocked.waits else None
        return Fail(
            signature=Signature(
                oracle=self.name,
                severity=Severity.ERROR,
                op=run.case.op,
                kernel=deadlocked.kernel,
                place=f"deadlock ({source})" if source else "deadlock",
            ),
            message=deadlocks.sentence(deadlocked),
            meaning=deadlocks.meaning(deadlocked),
            source=source,
        )

    def _fail(self, run: Run, *, kernel: str, place: str, meaning: str) -> Fail:
        launched = f" while {kernel} was launched" if kernel else ""
        return Fail(
            signature=Signature(oracle=self.name, severity=Severity.ERROR, op=run.case.op, kernel=kernel, place=place),
            message=f"{describe(run.ending)}{launched}",
            meaning=meaning,
        )


def telling_line(message: str) -> str:
    """The line that says what went wrong: the first, or the last of a Triton compile error, which lists code first."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if not lines:
        return "no message"
    return lines[-1] if re.fullmatch(r"at \d+:\d+:", lines[0]) else lines[0]


def message_class(message: str) -> str:
    """The message without what varies from case to case: addresses, numbers, and how many numbers stand in a list."""
    line = re.sub(r"0x[0-9a-fA-F]+", "#", telling_line(message))
    line = re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "#", line)
    return re.sub(r"#(, #)+", "#", line)[:MESSAGE_CLASS_LENGTH]
