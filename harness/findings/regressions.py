"""The kept regressions of suites: the files of `harness keep`, and what their cases show now."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError
from harness.findings.recorded_cases import Recorded, read
from harness.findings.rerun import Replayed, ReplayStatus, options_for, replay
from harness.findings.trust import refuse_foreign_code
from harness.model.finding import Finding
from harness.model.verdict import Severity
from harness.search.options import Options
from harness.search.session import Session
from harness.suite_files import REGRESSIONS, SHIPPED, located, may_be_replayed


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """One case of a file, or a file that cannot be read."""

    file: Path
    recorded: Recorded | None
    error: str = ""

    def __str__(self) -> str:
        return f"{self.recorded.id} of {self.file}" if self.recorded else str(self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionOutcome:
    """What a regression shows now."""

    findings: tuple[Finding, ...] = ()
    """The recorded failure and its symptoms, as far as they show again, and other errors of the case."""
    obstacle: str = ""
    """Why it could not be checked; empty if it could."""


def regressions_of(options: Options, arguments: Sequence[str], *, is_part: bool) -> tuple[Regression, ...]:
    """Return the regressions of the searched ops, and those whose suite is gone from a searched folder.

    Args:
        options: the search's.
        arguments: what the user has named: suites, and folders of them.
        is_part: True if the user has chosen among the ops.  Otherwise an op that its suite lacks is one that is gone.
    """
    found = (regression for file in _files(options) for regression in _read(file))
    return tuple(regression for regression in found if _belongs(regression, options, arguments, is_part=is_part))


def _files(options: Options) -> Iterator[Path]:
    """Yield the replay files below folders named `regressions`: in the project's suites, and next to each suite."""
    suites = (located(suite, options.project).parent / REGRESSIONS for suite in options.suites)
    in_project = (options.project / SHIPPED).rglob(f"{REGRESSIONS}/")
    folders = dict.fromkeys(folder.resolve() for folder in (*sorted(in_project), *suites))
    files = dict.fromkeys(file for folder in folders for file in sorted(folder.rglob("*.json")))
    here = Path.cwd()
    yield from (
        file.relative_to(here) if file.is_relative_to(here) else file for file in files if may_be_replayed(file)
    )


def _read(file: Path) -> Iterator[Regression]:
    try:
        yield from (Regression(file=file, recorded=recorded) for recorded in read(file))
    except HarnessError as error:
        yield Regression(file=file, recorded=None, error=str(error))


def _belongs(regression: Regression, options: Options, arguments: Sequence[str], *, is_part: bool) -> bool:
    """Return True if the regression is one of the search's.  A damaged file may be of any suite."""
    if regression.recorded is None:
        return True
    suite, _, name = regression.recorded.case.op.rpartition(":")
    if suite in options.suites:
        searched = {op.name for op in options.ops if op.suite == suite}
        return name in searched or not is_part
    is_gone = not located(suite, options.project).is_file()
    path = (options.project / suite).absolute()
    return is_gone and any(path.is_relative_to(Path(argument).absolute()) for argument in arguments)


def outcome_of(regression: Regression, session: Session) -> RegressionOutcome:
    """Replay one regression, in the session if that can run it, or else with processes of its own."""
    if regression.recorded is None:
        return RegressionOutcome(obstacle=f"{regression}: {regression.error}")
    try:
        replayed = _replayed(regression.recorded, session)
    except HarnessError as error:
        return RegressionOutcome(obstacle=f"{regression}: {error}")
    return RegressionOutcome(
        findings=replayed.failures(Severity.WARNING),
        obstacle=f"{regression.file}: {replayed}" if replayed.status is ReplayStatus.NOT_CHECKED else "",
    )


def _replayed(recorded: Recorded, session: Session) -> Replayed:
    searched = session.options
    refuse_foreign_code(recorded, searched.libraries, trusted=False)
    options = options_for(
        recorded,
        libraries=searched.libraries,
        engine=searched.engine,
        time_limit_s=searched.time_limit_s,
        sanitizer=searched.sanitizer,
        settings=searched.settings,
        shows_output=searched.shows_output,
    )
    serves = options.libraries == searched.libraries and {*options.suites} <= {*searched.suites}
    if serves and not searched.oracles:
        return replay(recorded, session, op=options.ops[0])
    with Session(options, gpus=session.gpus) as own:
        return replay(recorded, own)
