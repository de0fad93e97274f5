"""The queue of triage confirms all sightings first, then shrinks them in turns, and keeps its deadline."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from harness.model.case import Case
from harness.model.finding import Finding
from harness.model.paired_run import RunRequest, case_of
from harness.model.run import Run
from harness.model.verdict import Severity
from harness.oracles import registry
from harness.search.campaign_statistics import CampaignStatistics, Sighting, Trial
from harness.search.deadline import Deadline
from harness.search.judge import Judge
from harness.search.shrinking import ShrinkLimits
from harness.search.triage import Triage
from harness.search.triage_queue import TriageProgress, TriageQueue
from harness.workers.supervision.time_limits import Patience
from tests.search.fakes import DEVICE, OP, ImmediateRunner, facts, with_dims

JUDGE = Judge(oracles=(registry.find("write-overlap"),))
LIMITS = ShrinkLimits(runs=300, seconds=60.0)


def many_rows(case: Case) -> bool:
    return case.dims["T"] >= 3


def sightings(*rows: int) -> list[Sighting]:
    """Return a sighting for each number of rows, each with a signature of its own."""
    statistics = CampaignStatistics()
    for number, count in enumerate(rows):
        case = with_dims(T=count, D=64)
        (fail,) = JUDGE.judge(OP, facts(case, many_rows), {}).fails
        severity = Severity.WARNING if number % 2 == 0 else Severity.ERROR
        signature = replace(fail.signature, place=f"layernorm.py:{count}", severity=severity)
        trial = Trial(number=number, op=OP, case=case, batch=None, home_sm_count=DEVICE.sm_count)
        statistics.sight(replace(fail, signature=signature, argument=f"d{count}"), trial, (number,))
    return statistics.in_order()


@dataclass
class Observed:
    """Records the progress of triage, and ends it as Ctrl-C does after `stop_after` reports."""

    progress: list[TriageProgress] = field(default_factory=list[TriageProgress])
    stop_after: int | None = None

    def triaging(self, progress: TriageProgress) -> None:
        self.progress.append(progress)
        if self.stop_after is not None and len(self.progress) > self.stop_after:
            raise KeyboardInterrupt

    def trying(self, case: Case) -> None:
        del case


def triaged(
    runner: ImmediateRunner,
    seen: list[Sighting],
    deadline: Deadline,
    observed: Observed | None = None,
    processes: int = 2,
) -> list[tuple[str, Finding]]:
    """Return all versions of all findings, each with the place of its sighting."""
    kept: list[tuple[str, Finding]] = []

    def make(trying: Callable[[Case], None]) -> Triage:
        return Triage(runner=runner, judge=JUDGE, trying=trying)

    queue = TriageQueue(make, processes, deadline, LIMITS)
    queue.run(seen, observed or Observed(), lambda one, finding: kept.append((one.fail.signature.place, finding)))
    return kept


def test_every_sighting_has_its_first_turn_before_any_shrinks() -> None:
    runner = ImmediateRunner(lambda case: facts(case, many_rows))
    kept = triaged(runner, sightings(10, 11, 12, 13), Deadline.after(60), processes=1)
    # The fakes fail with another signature than the sightings, so nothing repeats: the second turn explains it.
    assert [place[-2:] for place, _ in kept] == ["11", "13", "10", "12"] * 2
    assert [finding.repeats.runs for _, finding in kept] == [1] * 4 + [10] * 4


def test_what_was_not_reached_before_the_deadline_has_no_finding() -> None:
    released = threading.Event()

    class Hanging(ImmediateRunner):
        def run_alone(
            self, request: RunRequest, before: Sequence[Case] = (), *, patience: Patience = Patience.USUAL
        ) -> Run:
            if case_of(request).dims["T"] == 11:
                released.wait()
            return super().run_alone(request, before, patience=patience)

    kept = triaged(Hanging(lambda case: facts(case, many_rows)), sightings(10, 11), Deadline.after(1.0))
    released.set()
    assert {place for place, _ in kept} == {"layernorm.py:10"}


def test_an_interrupt_keeps_the_findings_so_far() -> None:
    kept: list[Finding] = []
    runner = ImmediateRunner(lambda case: facts(case, many_rows))
    queue = TriageQueue(lambda trying: Triage(runner=runner, judge=JUDGE, trying=trying), 1, Deadline.after(60), LIMITS)
    with pytest.raises(KeyboardInterrupt):
        queue.run(sightings(10, 11), Observed(stop_after=0), lambda _, finding: kept.append(finding))
    assert len(kept) == 1


def test_progress_counts_confirmed_and_finished_sightings() -> None:
    observed = Observed()
    triaged(ImmediateRunner(lambda case: facts(case, many_rows)), sightings(10, 11), Deadline.after(60), observed)
    last = observed.progress[-1]
    assert (last.sightings, last.confirmed, last.finished) == (2, 2, 2)
