"""Check a recorded case for its bug with another release or commit: bad, good, or no evidence.

`stretches` chooses the members.
"""

from dataclasses import dataclass, replace

from harness.errors import LibraryError, SuiteError
from harness.findings.bisection.binary_search import Shown
from harness.findings.recorded_cases import Recorded
from harness.findings.rerun import Replayed, options_for, replay
from harness.findings.same_bug import is_gone, is_same_bug, obstacle
from harness.search.engine_choice import parse_engine
from harness.search.session import Session
from harness.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberCheck:
    """The result of checking one member."""

    shown: Shown
    explanation: str
    """The signature that was seen, a statement that the bug does not show, or why nothing could be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTrial:
    """The case and all settings that are the same for every member."""

    recorded: Recorded
    other_libraries: tuple[str, ...]
    """Libraries under test that are not bisected, as `--with` takes them."""
    engine: str
    """As `--engine` takes it, so that another process can read the trial."""
    time_limit_s: float
    runs: int

    def check(self, settings: Settings, *libraries: str) -> MemberCheck:
        """Replay the case up to `runs` times with these libraries before the others, until a run shows the bug.

        A library that cannot be installed or imported is no evidence.
        """
        options = options_for(
            self.recorded,
            libraries=(*libraries, *self.other_libraries),
            time_limit_s=self.time_limit_s,
            engine=parse_engine(self.engine),
            settings=settings,
        )
        checks: list[MemberCheck] = []
        try:
            with Session(options) as session:
                while len(checks) < self.runs and not (checks and checks[-1].shown is Shown.BAD):
                    checks.append(check_of(replay(self.recorded, session)))
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
    if not is_gone(signature, examined):
        return MemberCheck(shown=Shown.SKIP, explanation=obstacle(signature, examined))
    signatures = ", ".join(dict.fromkeys(str(fail.signature) for fail in examined.fails))
    return MemberCheck(
        shown=Shown.GOOD, explanation=f"does not show it; fails {signatures}" if signatures else "does not show it"
    )
