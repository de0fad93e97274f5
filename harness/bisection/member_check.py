"""Check a recorded case for its bug with another release or commit: bad, good, or no evidence.

Owns the rule by which two failures are the same bug although the sources changed.  `stretches` chooses the members.
"""

import re
from dataclasses import dataclass, replace

from harness.bisection.binary_search import Shown
from harness.errors import LibraryError, SuiteError
from harness.findings.recorded_cases import Recorded
from harness.findings.rerun import Replayed, replay
from harness.model.run import Completed
from harness.model.verdict import Abstain, Outcome, Pass, Severity, Signature
from harness.oracles import registry
from harness.search.judge import Examination
from harness.search.options import Options
from harness.search.session import Session

LINE_NUMBER = re.compile(r"(?<=\.py):\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberCheck:
    """The result of checking one member."""

    shown: Shown
    explanation: str
    """The signature that was seen, a statement that the bug does not show, or why nothing could be checked."""


def check_member(recorded: Recorded, options: Options, runs: int) -> MemberCheck:
    """Replay the case up to `runs` times with the libraries of `options`, until a run shows the bug.

    A library that cannot be installed or imported is no evidence.
    """
    checks: list[MemberCheck] = []
    try:
        with Session(options) as session:
            while len(checks) < runs and not (checks and checks[-1].shown is Shown.BAD):
                checks.append(check_of(replay(recorded, session)))
    except (LibraryError, SuiteError) as error:
        return MemberCheck(shown=Shown.SKIP, explanation=str(error).splitlines()[0])
    return combine(checks)


def combine(checks: list[MemberCheck]) -> MemberCheck:
    """Combine several runs: bad if one is bad; good only if all are good, since a skipped run might have been bad."""
    worst = min(checks, key=lambda check: (Shown.BAD, Shown.SKIP, Shown.GOOD).index(check.shown))
    if len(checks) == 1:
        return worst
    match worst.shown:
        case Shown.BAD:
            return replace(worst, explanation=f"{worst.explanation} (in run {len(checks)})")
        case Shown.SKIP:
            return worst
        case Shown.GOOD:
            return replace(worst, explanation=f"{worst.explanation} (in {len(checks)} runs)")


def check_of(replayed: Replayed) -> MemberCheck:
    """Return what one run shows of the recorded bug; a case without a signature is bad if it fails at all."""
    signature, examined = replayed.recorded.signature, replayed.examined
    for fail in examined.fails:
        if signature is None or is_same_bug(fail.signature, signature):
            return MemberCheck(shown=Shown.BAD, explanation=str(fail.signature))
    is_evidence = examined.outcome is Outcome.PASS if signature is None else _is_evidence(signature, examined)
    if not is_evidence:
        return MemberCheck(shown=Shown.SKIP, explanation=_obstacle(signature, examined))
    others = ", ".join(dict.fromkeys(str(fail.signature) for fail in examined.fails))
    return MemberCheck(
        shown=Shown.GOOD, explanation=f"does not show it; fails {others}" if others else "does not show it"
    )


def is_same_bug(one: Signature, other: Signature) -> bool:
    """Return True if two failures are the same bug in two releases.

    Line numbers change, and the severity does too: a race may or may not show in the values.
    """
    return _normalised(one) == _normalised(other)


def _normalised(signature: Signature) -> Signature:
    return replace(signature, severity=Severity.ERROR, place=LINE_NUMBER.sub("", signature.place))


def _is_evidence(signature: Signature, examined: Examination) -> bool:
    """Return True if a run without the bug is evidence against it.

    It is if the oracle passes, or if the oracle fails otherwise and the kernel at fault ran too.  If that kernel did
    not run, the other failure may be the same bug in a renamed kernel.
    """
    if any(isinstance(verdict, Pass) and verdict.oracle == signature.oracle for verdict in examined.verdicts):
        return True
    if not any(fail.oracle == signature.oracle for fail in examined.fails):
        return False
    launched = {launch.kernel for launch in examined.run.launches}
    return isinstance(examined.run.ending, Completed) and (not signature.kernel or signature.kernel in launched)


def _obstacle(signature: Signature | None, examined: Examination) -> str:
    """Explain why the run is no evidence: its ending, another failure of the same oracle, or why that abstained."""
    oracle = signature.oracle if signature is not None else ""
    abstained = [verdict for verdict in examined.verdicts if isinstance(verdict, Abstain)]
    reasons = [
        *(fail.message for fail in examined.fails if fail.oracle == registry.COMPLETES.name),
        *(f"instead: {fail.signature}" for fail in examined.fails if fail.oracle == oracle),
        *(verdict.reason for verdict in abstained if verdict.oracle == oracle),
        *(verdict.reason for verdict in abstained),
    ]
    return reasons[0] if reasons else "no oracle says anything"
