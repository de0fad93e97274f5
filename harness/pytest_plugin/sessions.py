"""The searches of one pytest process: one open session at a time, and on a real GPU those of the next tests under way.

A search on a GPU mostly waits: for the compiler, and for the verdicts that its next cases are drawn from.  So several
go on at once, each with the cases that it would have alone.  Torch, Triton and the engines are loaded once for all.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

import pytest

from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.finding import Finding
from harness.model.op import Op
from harness.model.verdict import Fail
from harness.pytest_plugin.gpu_workers import gpu_of
from harness.search.campaign import Campaign
from harness.search.campaign_statistics import CampaignStatistics, Trial
from harness.search.options import CUDA, ON_GPUS, Options
from harness.search.session import Session
from harness.workers.zygote.shared_zygotes import SharedZygotes

AT_ONCE = 8
"""Searches on one GPU.  On an H200 beside 16 cores, one alone keeps two of the cores busy."""
COMPILERS_EACH = 2
"""Processes that compile ahead, at least, for each search at once."""

Sought = tuple[Op, DeviceProfile]


class Searches:
    """Owns the open session, its fork servers, and the campaigns that have begun."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._grounds = SharedZygotes()
        self._open: Session | None = None
        self._begun: dict[tuple[str, DeviceProfile], Campaign] = {}
        self._watcher = Watching(self._begun.values())

    def session(self, options: Options) -> Session:
        """The open session if it is for the same options, or a new one in its place."""
        if self._open is None or self._open.options != options:
            self._close_session()
            gpus = (gpu_of(self._config),) if options.engine in ON_GPUS else ()
            self._open = Session(options, gpus=gpus, grounds=self._grounds)
        return self._open

    def search(self, session: Session, sought: Sought, then: Iterable[Sought]) -> CampaignStatistics:
        """Search for one op on one device; those that come `then` go on beside it, as many as there are cores for."""
        campaign = self._campaign(session, sought)
        beside = [self._campaign(session, one) for one in islice(then, others(session.options))]
        del self._begun[_key(sought)]
        return campaign.run(beside)

    def findings(self, session: Session, tally: CampaignStatistics) -> list[Finding]:
        """What the sightings of a search come to.  Between two tries the searches that have begun go on."""
        found: list[Finding] = []
        session.triage(tally, self._watcher, found.append)
        return found

    def close(self) -> None:
        """End every process.  Those that all sessions share go first, so that nobody waits for one that still loads."""
        self._grounds.close()
        self._close_session()

    def _campaign(self, session: Session, sought: Sought) -> Campaign:
        if _key(sought) not in self._begun:
            op, device = sought
            plan = replace(session.options.plan, ops=(op,), devices=(device,))
            self._begun[_key(sought)] = session.campaign(plan, self._watcher)
        return self._begun[_key(sought)]

    def _close_session(self) -> None:
        self._begun.clear()
        if self._open is not None:
            self._open.close()
            self._open = None


class Watching:
    """Says nothing, since pytest has its own progress; before each case of a triage it sees to other campaigns."""

    def __init__(self, others: Iterable[Campaign]) -> None:
        self._others = others

    def tick(self, tally: CampaignStatistics, trying: Case | None) -> None:
        """Nothing."""

    def sighted(self, fail: Fail, trial: Trial) -> None:
        """Nothing."""

    def shrinking(self, fail: Fail, number: int, total: int) -> None:
        """Nothing."""

    def trying(self, case: Case) -> None:
        """Let the others go on."""
        del case
        for campaign in self._others:
            campaign.go_on()


def _key(sought: Sought) -> tuple[str, DeviceProfile]:
    op, device = sought
    return op.id, device


def others(options: Options) -> int:
    """How many searches may go on beside one."""
    at_once = min(AT_ONCE, (options.compilers or 0) // COMPILERS_EACH) if options.engine == CUDA else 1
    return max(0, at_once - 1)
