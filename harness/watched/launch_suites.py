"""Turns a recorded launch into a suite of one op, and repeats it alone in a fresh process.

So everything that works on the findings of a search works on those of `harness run`: replay, region, bisect.
"""

import shutil
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from harness.errors import HarnessError
from harness.findings.recorded_cases import LAUNCHES, Recorded
from harness.findings.rerun import options_for, replay
from harness.model.engine_traits import VIRTUAL, EngineTraits
from harness.model.finding import Finding, ReplayCount
from harness.oracles.compute_sanitizer import ComputeSanitizerClean
from harness.search.options import SanitizerChoice
from harness.search.session import Session, prepared
from harness.settings import Settings
from harness.suite_files import named_in_project
from harness.watched.watch_report import WatchedFinding
from harness.workers.fork_servers.shared_zygotes import SharedZygotes

LAUNCH, SUITE = "launch.pt", "suite.py"
SANITIZER = ComputeSanitizerClean.name
TEMPLATE = '''\
"""A launch of {kernel} that `harness run` recorded.

{test}
"""

from pathlib import Path

from harness.suite import op


@op(dims={{}}, inputs={{}}, waives=("result-structure",))
def {kernel}():
    from harness.watched.recorded_launch import launch_again

    launch_again(Path(__file__).with_name("{launch}"))


@{kernel}.reference
def _():
    """A launch by itself has no definition."""
'''


@dataclass(frozen=True, slots=True)
class LaunchRepeater:
    """Repeats recorded launches."""

    folder: Path
    """The folder of the command, with the recordings."""
    settings: Settings
    keep: Callable[[Finding], None]
    """Receives each finding that repeats alone."""
    engine: EngineTraits = VIRTUAL
    sanitizer: SanitizerChoice | None = None
    """The tool under which the launches were made."""

    def repeat(self, found: Iterable[WatchedFinding]) -> None:
        """Repeat the launch of each finding that has a recording."""
        with closing(SharedZygotes()) as zygotes:
            for one in found:
                if one.recording and one.finding.launch is not None:
                    self.keep(self._repeated(one, zygotes))

    def _repeated(self, one: WatchedFinding, zygotes: SharedZygotes) -> Finding:
        finding = one.finding
        suite = self._suite(one)
        case = replace(finding.case, op=f"{named_in_project(str(suite))}:{_kernel(finding)}")
        recorded = Recorded(
            case=case,
            signature=finding.fail.signature,
            symptoms=tuple(symptom.signature for symptom in finding.symptoms),
            libraries=finding.libraries,
            project=str(Path.cwd()),
        )
        try:
            options = options_for(
                recorded,
                libraries=(),
                engine=self.engine,
                sanitizer=self.sanitizer if finding.fail.signature.oracle == SANITIZER else None,
                settings=self.settings,
            )
            with Session(options, shared_zygotes=zygotes) as session:
                replayed = replay(recorded, session)
        except HarnessError:  # the kernel is where only the command finds it, such as beside a script that was deleted
            return finding
        repeats = ReplayCount(shown=len(replayed.same[:1]), runs=1, other_result=str(replayed.status))
        if not replayed.same:
            return finding
        return replace(finding, case=case, confirmed=True, repeats=repeats, launch=replayed.same[0].launch)

    def _suite(self, one: WatchedFinding) -> Path:
        """Write the suite of a recorded launch, beside the recording."""
        place = prepared(LAUNCHES / one.finding.id)
        shutil.copyfile(self.folder / one.recording, place / LAUNCH)
        text = TEMPLATE.format(kernel=_kernel(one.finding), test=_test_of(one.finding), launch=LAUNCH)
        (place / SUITE).write_text(text, encoding="utf-8")
        return place / SUITE


def _kernel(finding: Finding) -> str:
    assert finding.launch is not None
    return finding.launch.kernel


def _test_of(finding: Finding) -> str:
    watched = finding.watched
    return f"Test: {watched.test}" if watched is not None else ""
