"""The searches of one pytest process: one open session, and on a GPU several searches at the same time.

A search on a GPU mostly waits: for the compiler, and for the verdicts from which its next cases are drawn.  So the
searches of the next tests start early.  Each still draws the cases that it would draw alone.  Torch, Triton and the
engines are loaded once for all sessions.
"""

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from harness.errors import store_error
from harness.findings import store
from harness.findings.search_log import SearchLog
from harness.findings.versions import versions
from harness.model.case import HARNESS_FOLDER, Case
from harness.model.device import DeviceProfile
from harness.model.finding import Finding
from harness.model.op import Op
from harness.model.verdict import Fail
from harness.pytest_plugin.gpu_workers import gpu_of
from harness.reports.finding_text import Sources, quoted, render
from harness.reports.interrupts import SIGNALS, Interrupts
from harness.search.campaign import Campaign
from harness.search.campaign_statistics import CampaignStatistics, Sighting, Trial
from harness.search.miscompilations import merged_miscompilations
from harness.search.options import Options
from harness.search.session import Session, prepared
from harness.search.triage_queue import TriageProgress
from harness.settings import Settings
from harness.workers.fork_servers.residents import Residents
from harness.workers.fork_servers.shared_zygotes import SharedZygotes

AT_ONCE = 8
"""Most searches of many cases on one GPU.  One alone leaves 14 of 16 cores idle on a machine with an H200."""
COMPILERS_EACH = 2
"""Processes that compile ahead, at least, for each search of many cases."""
MOST_SHORT = 32
"""Most searches of few cases, whose compilers are soon idle while one slow kernel holds up the test."""
CASES_EACH = 4
"""Cases for each process that compiles ahead: so many are under way, as far as short searches go."""

SearchTarget = tuple[Op, DeviceProfile]


class Searches:
    """Owns the open session, the shared zygotes, and the campaigns that have begun."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._zygotes = SharedZygotes(Residents.allowed_by(Settings.from_environment(os.environ)))
        self._open: Session | None = None
        self._campaigns: dict[tuple[str, DeviceProfile], Campaign] = {}
        self._observers: dict[tuple[str, DeviceProfile], PollingObserver] = {}
        """Of the campaigns that have begun, and of those whose triage is still to come."""
        self._stored: dict[str, Finding] = {}
        """The simplest finding with each id that this process has stored."""
        self._interrupts = Interrupts(())

    @contextmanager
    def interruptible(self) -> Generator[None]:
        """Let Ctrl-C and SIGTERM end the searches of this context, also while Hypothesis draws.

        Signals that others handle are left to them.
        """
        own = [number for number in SIGNALS if signal.getsignal(number) is signal.default_int_handler]
        is_main = threading.current_thread() is threading.main_thread()
        with Interrupts(own if is_main else ()) as self._interrupts:
            yield

    def raise_interrupt(self) -> None:
        """Raise KeyboardInterrupt if a signal has come that could not be raised at once."""
        self._interrupts.check()

    def session(self, options: Options) -> Session:
        """Return the open session if it has the same options; otherwise replace it."""
        if self._open is None or self._open.options != options:
            self._close_session()
            gpus = (gpu_of(self._config),) if options.engine.needs_gpu else ()
            self._open = Session(options, gpus=gpus, shared_zygotes=self._zygotes)
        return self._open

    def search(self, session: Session, target: SearchTarget, following: Iterable[SearchTarget]) -> CampaignStatistics:
        """Search one op on one device.  The `following` targets make progress too, as far as there are cores."""
        campaign = self._campaign(session, target)
        concurrent = [
            self._campaign(session, next_target)
            for next_target in islice(following, concurrent_searches(session.options))
        ]
        del self._campaigns[_key(target)]
        return campaign.run(concurrent)

    def findings(self, session: Session, target: SearchTarget, statistics: CampaignStatistics) -> list[Finding]:
        """Triage the sightings of a search, and store what is found.

        Other campaigns make progress between two cases of it.
        """
        observer = self._observers.pop(_key(target))
        for sighting in statistics.in_order():
            observer.keep(sighting, session.not_tried(sighting))
        session.triage(statistics, observer, observer.keep)
        for signature, finding in merged_miscompilations(observer.log.findings).items():
            observer.keep(statistics.sightings[signature], finding)
        findings = observer.log.findings
        for finding in findings.values():
            self._note(finding)
        in_order = (sighting.fail.signature for sighting in statistics.in_order())
        return [findings[signature] for signature in in_order if signature in findings]

    def keep(self, session: Session, findings: Iterable[Finding]) -> None:
        """Store what single cases show, so that the commands of the printed findings work.

        A larger case replaces none that this process has stored.  A stored finding of the same case has more to say.

        Raises:
            HarnessError: the store cannot be written.
        """
        sources = Sources(roots=session.sources)
        folder = prepared(HARNESS_FOLDER) / "findings"
        for finding in _complete(findings, session, sources):
            try:
                with store.locked(folder):
                    if self._note(finding) and not store.holds(finding, folder):
                        store.write(finding, folder, render(finding, sources).plain, versions())
                    else:
                        store.add_cases(finding, folder)
            except OSError as error:
                raise store_error(error, folder) from None

    def close(self) -> None:
        """End every process."""
        # Zygotes first: the session would wait for one that is still loading.
        self._zygotes.close()
        self._close_session()

    def _note(self, finding: Finding) -> bool:
        """Return True if this process has stored no simpler finding with this id; note it then."""
        known = self._stored.setdefault(finding.id, finding)
        if store.rank(known) < store.rank(finding):
            return False
        self._stored[finding.id] = finding
        return True

    def _campaign(self, session: Session, target: SearchTarget) -> Campaign:
        if _key(target) not in self._campaigns:
            op, device = target
            plan = replace(session.options.plan, ops=(op,), devices=(device,))
            observer = PollingObserver(session, self._campaigns.values(), self.raise_interrupt)
            self._observers[_key(target)] = observer
            self._campaigns[_key(target)] = session.campaign(plan, observer)
        return self._campaigns[_key(target)]

    def _close_session(self) -> None:
        self._campaigns.clear()
        self._observers.clear()
        if self._open is not None:
            self._open.close()
            self._open = None


class PollingObserver:
    """A silent observer, since pytest has its own progress.  It stores each failure when it is seen.

    Before each case of a triage it polls the other campaigns.  With each progress report it calls `raise_interrupt`.
    """

    def __init__(self, session: Session, campaigns: Iterable[Campaign], raise_interrupt: Callable[[], None]) -> None:
        self._session = session
        self._campaigns = campaigns
        self._raise_interrupt = raise_interrupt
        self._sources = Sources(roots=session.sources)
        folder = prepared(HARNESS_FOLDER) / "findings"
        self.log = SearchLog(folder, lambda finding: render(finding, self._sources).plain, versions())

    def keep(self, sighting: Sighting, finding: Finding) -> None:
        """Store a finding in place of the one that this sighting had."""
        (complete,) = _complete((finding,), self._session, self._sources)
        self.log.keep(sighting.fail.signature, complete)

    def tick(self, statistics: CampaignStatistics, latest: Case | None) -> None:
        del statistics, latest
        self._raise_interrupt()

    def sighted(self, fail: Fail, trial: Trial) -> None:
        """Store it: a search that is killed loses nothing that it saw."""
        sighting = Sighting(fail=fail, first=trial, simplest=trial, simplest_key=())
        self.keep(sighting, self._session.not_tried(sighting))

    def triaging(self, progress: TriageProgress) -> None:
        del progress
        self._raise_interrupt()

    def trying(self, case: Case) -> None:
        """Let the other campaigns go on."""
        del case
        for campaign in self._campaigns:
            campaign.poll()


def _complete(findings: Iterable[Finding], session: Session, sources: Sources) -> tuple[Finding, ...]:
    """Add to each finding what a replay needs outside this process, and the source around the line at fault."""
    project = session.options.project.resolve()
    folders = (Path(folder).resolve() for folder in session.options.import_paths)
    paths = tuple(str(folder.relative_to(project)) for folder in folders if folder.is_relative_to(project))
    return tuple(replace(finding, import_paths=paths) for finding in quoted(findings, sources))


def _key(target: SearchTarget) -> tuple[str, DeviceProfile]:
    op, device = target
    return op.id, device


def concurrent_searches(options: Options) -> int:
    """Return how many searches may run in addition to the current one."""
    compilers = options.compilers or 0
    if not options.engine.is_hardware:
        return 0
    at_once = min(AT_ONCE, compilers // COMPILERS_EACH)
    if options.budget.cases:
        at_once = max(at_once, min(MOST_SHORT, CASES_EACH * compilers // options.budget.cases))
    return max(0, at_once - 1)
