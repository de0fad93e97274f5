"""What a recorded case shows of its bug with other releases than those on record: bad, good, or no evidence.

Owns when two failures are one bug although the sources have moved on.  Which releases to look at is decided elsewhere.
"""

import re
from dataclasses import dataclass, replace

from harness.bisection.binary_search import Shown
from harness.errors import LibraryError, SuiteError
from harness.findings.replay import Recorded
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
    """What came of looking at one release."""

    shown: Shown
    words: str
    """The signature that was seen, what was judged and kept, or why nothing could be judged."""


def look_at(recorded: Recorded, options: Options, runs: int) -> MemberCheck:
    """Replay the case up to `runs` times with the libraries of `options`; one run that shows the bug is enough.

    A library that cannot be installed or imported is no evidence.
    """
    looks: list[MemberCheck] = []
    try:
        with Session(options) as session:
            while len(looks) < runs and not (looks and looks[-1].shown is Shown.BAD):
                looks.append(look_of(replay(recorded, session)))
    except (LibraryError, SuiteError) as error:
        return MemberCheck(shown=Shown.SKIP, words=str(error).splitlines()[0])
    return sum_of(looks)


def sum_of(looks: list[MemberCheck]) -> MemberCheck:
    """What several runs come to: bad if one is; good only if all are, since any other might have shown the bug."""
    worst = min(looks, key=lambda look: (Shown.BAD, Shown.SKIP, Shown.GOOD).index(look.shown))
    if len(looks) == 1:
        return worst
    match worst.shown:
        case Shown.BAD:
            return replace(worst, words=f"{worst.words} (in run {len(looks)})")
        case Shown.SKIP:
            return worst
        case Shown.GOOD:
            return replace(worst, words=f"{worst.words} (in {len(looks)} runs)")


def look_of(replayed: Replayed) -> MemberCheck:
    """What one run shows of the bug on record; of a bare case, whether it shows any."""
    signature, examined = replayed.recorded.signature, replayed.examined
    for fail in examined.fails:
        if signature is None or is_same_bug(fail.signature, signature):
            return MemberCheck(shown=Shown.BAD, words=str(fail.signature))
    judged = examined.outcome is Outcome.PASS if signature is None else _is_judged(signature, examined)
    if not judged:
        return MemberCheck(shown=Shown.SKIP, words=_obstacle(signature, examined))
    others = ", ".join(dict.fromkeys(str(fail.signature) for fail in examined.fails))
    return MemberCheck(shown=Shown.GOOD, words=f"does not show it; fails {others}" if others else "does not show it")


def is_same_bug(one: Signature, other: Signature) -> bool:
    """Whether two failures are one bug in two releases: lines move, and so does whether a race shows in the values."""
    return _lasting(one) == _lasting(other)


def _lasting(signature: Signature) -> Signature:
    return replace(signature, severity=Severity.ERROR, place=LINE_NUMBER.sub("", signature.place))


def _is_judged(signature: Signature, examined: Examination) -> bool:
    """Whether a run without the bug is evidence against it.

    It is where the oracle passes it, or fails something else although the kernel at fault ran too.  If that kernel
    did not run, what fails may well be the same bug in a kernel of another name.
    """
    if any(isinstance(verdict, Pass) and verdict.oracle == signature.oracle for verdict in examined.verdicts):
        return True
    if not any(fail.oracle == signature.oracle for fail in examined.fails):
        return False
    launched = {launch.kernel for launch in examined.run.launches}
    return isinstance(examined.run.ending, Completed) and (not signature.kernel or signature.kernel in launched)


def _obstacle(signature: Signature | None, examined: Examination) -> str:
    """Why the run is no evidence: what ended it, what the same oracle says instead, or why it abstained."""
    oracle = signature.oracle if signature is not None else ""
    abstained = [verdict for verdict in examined.verdicts if isinstance(verdict, Abstain)]
    reasons = [
        *(fail.message for fail in examined.fails if fail.oracle == registry.COMPLETES.name),
        *(f"instead: {fail.signature}" for fail in examined.fails if fail.oracle == oracle),
        *(verdict.reason for verdict in abstained if verdict.oracle == oracle),
        *(verdict.reason for verdict in abstained),
    ]
    return reasons[0] if reasons else "no oracle says anything"
