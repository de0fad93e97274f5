"""Turns a recorded launch into a suite of one op, and repeats it alone in a fresh process.

So everything that works on the findings of a search works on those of `harness run`: replay, region, bisect.
"""

import shutil
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from harness.drafts.suite_text import OpText, SuiteText
from harness.errors import HarnessError
from harness.findings.recorded_cases import LAUNCHES, Recorded
from harness.findings.rerun import options_for, replay
from harness.model.engine_traits import VIRTUAL, EngineTraits
from harness.model.finding import Finding, ReplayCount
from harness.oracles import registry
from harness.oracles.compute_sanitizer import ComputeSanitizerClean
from harness.oracles.traits import Need
from harness.search.options import SanitizerChoice
from harness.search.session import Session, prepared
from harness.settings import Settings
from harness.suite_files import named_in_project
from harness.watched.watch_report import WatchedFinding
from harness.workers.fork_servers.residents import Residents
from harness.workers.fork_servers.shared_zygotes import SharedZygotes

LAUNCH, SUITE = "launch.pt", "suite.py"
SANITIZER = ComputeSanitizerClean.name


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

    def repeat(self, findings: Iterable[WatchedFinding]) -> None:
        """Repeat the launch of each finding that has a recording."""
        with closing(SharedZygotes(Residents.allowed_by(self.settings))) as zygotes:
            for watched in findings:
                if watched.recording and watched.finding.launch is not None:
                    self.keep(self._repeated(watched, zygotes))

    def _repeated(self, watched: WatchedFinding, zygotes: SharedZygotes) -> Finding:
        finding = watched.finding
        suite = self._suite(watched)
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

    def _suite(self, watched: WatchedFinding) -> Path:
        """Write the suite of a recorded launch, beside the recording."""
        place = prepared(LAUNCHES / watched.finding.id)
        shutil.copyfile(self.folder / watched.recording, place / LAUNCH)
        (place / SUITE).write_text(str(_suite_text(watched.finding)), encoding="utf-8")
        return place / SUITE


def _suite_text(finding: Finding) -> SuiteText:
    signature = finding.fail.signature
    needs_result = Need.COMPARABLE_RESULTS in registry.traits_of(signature.oracle).needs
    launched = f'launch_again(Path(__file__).with_name("{LAUNCH}")'
    op = OpText(
        name=_kernel(finding),
        more={"waives": '("result-structure",)'},
        body=(
            "from harness.watched.recorded_launch import launch_again",
            "",
            f"return {launched}, {signature.place!r})" if needs_result else f"{launched})",
        ),
        # A launch by itself has no definition, so nothing but runs of it are compared.
        defined=("y",) if needs_result else (),
        definition=("return y",) if needs_result else ('"""A launch by itself has no definition."""',),
    )
    test = f"\nTest: {finding.watched.test}\n" if finding.watched else ""
    about = f"A launch of {op.name} that `harness run` recorded.\n{test}"
    return SuiteText(about=about, imports=("from pathlib import Path",), ops=(op,))


def _kernel(finding: Finding) -> str:
    assert finding.launch is not None
    return finding.launch.kernel
