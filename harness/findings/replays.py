"""Replays of many recorded cases at once: which failures still show, which are gone, and which could not be tried."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum

from harness.errors import HarnessError
from harness.findings.recorded_cases import Recorded
from harness.findings.rerun import Replayed, ReplayStatus, replay
from harness.model.finding import Finding
from harness.model.verdict import Severity
from harness.search.options import Options
from harness.search.session import Session
from harness.wording import counted
from harness.workers.fork_servers.residents import Residents
from harness.workers.fork_servers.shared_zygotes import SharedZygotes


class FindingState(StrEnum):
    """What is known of a recorded failure now."""

    STILL_THERE = "still there"
    GONE = "gone"
    NOT_TRIED = "not tried"
    """Its case could not be run, or the run shows too little."""


STATES = {
    ReplayStatus.SHOWN: FindingState.STILL_THERE,
    ReplayStatus.GONE: FindingState.GONE,
    ReplayStatus.NOT_CHECKED: FindingState.NOT_TRIED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAttempt:
    """The replay of one recorded case, or why there is none."""

    recorded: Recorded
    replayed: Replayed | None
    obstacle: str = ""

    @property
    def state(self) -> FindingState:
        return STATES[self.replayed.status] if self.replayed else FindingState.NOT_TRIED

    def failures(self, fail_on: Severity) -> tuple[Finding, ...]:
        """As `Replayed.failures`."""
        return self.replayed.failures(fail_on) if self.replayed else ()

    def __str__(self) -> str:
        sentence = self.replayed or f"{self.recorded.id} could not be run: {self.obstacle}"
        return f"{self.state:<11}  {sentence}"


def replay_each(
    cases: Sequence[Recorded], options_of: Callable[[Recorded], Options], residents: Residents | None = None
) -> Iterator[ReplayAttempt]:
    """Replay every case in a session of its own, as many at once as there are cores, and yield them in their order.

    The sessions share the processes that have loaded torch and Triton.
    """
    with closing(SharedZygotes(residents)) as zygotes, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        yield from threads.map(lambda recorded: _attempt(recorded, options_of, zygotes), cases)


def _attempt(recorded: Recorded, options_of: Callable[[Recorded], Options], zygotes: SharedZygotes) -> ReplayAttempt:
    try:
        with Session(options_of(recorded), shared_zygotes=zygotes) as session:
            return ReplayAttempt(recorded=recorded, replayed=replay(recorded, session))
    except HarnessError as error:
        return ReplayAttempt(recorded=recorded, replayed=None, obstacle=str(error))


def summary_of(attempts: Sequence[ReplayAttempt]) -> str:
    """Return `3 findings: 1 still there, 2 gone`."""
    counts = ((state, sum(attempt.state is state for attempt in attempts)) for state in FindingState)
    return f"{counted(len(attempts), 'finding')}: {', '.join(f'{count} {state}' for state, count in counts if count)}"
