"""Triage confirms sightings in a fresh process, shrinks them, and reports the shrunk case."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from harness.model.case import Case
from harness.model.finding import Finding, FirstSeen, ReplayCount
from harness.model.hardware_blame import Blame, HardwareBlame
from harness.model.op import Op
from harness.model.paired_run import RunRequest, case_of
from harness.model.run import HungParty, Overtime, Run, TimedOut
from harness.model.verdict import Fail, Severity, Signature
from harness.oracles import registry
from harness.search.campaign_statistics import CampaignStatistics, Sighting, Trial
from harness.search.judge import Examination, Judge
from harness.search.shrinking import ShrinkLimits
from harness.search.triage import Triage
from harness.workers.supervision.time_limits import Patience
from tests.search.fakes import DEVICE, KERNEL, OP, ImmediateRunner, Shows, facts, never, with_dims

JUDGE = Judge(oracles=(registry.find("write-overlap"),))
LIMITS = ShrinkLimits(runs=300, seconds=60.0)


def sighting(first: Case, simplest: Case, shows: Shows) -> Sighting:
    (fail,) = JUDGE.judge(OP, facts(first, shows), {}).fails
    trials = [
        Trial(number=n, op=OP, case=case, batch=None, home_sm_count=DEVICE.sm_count)
        for n, case in enumerate((first, simplest))
    ]
    return Sighting(fail=fail, first=trials[0], simplest=trials[1], simplest_key=(), count=9)


def triage(runner: ImmediateRunner) -> Triage:
    return Triage(runner=runner, judge=JUDGE, libraries=("fla-core==0.5.2",), trying=lambda _: None)


def many_rows(case: Case) -> bool:
    return case.dims["T"] >= 3


def test_a_finding_is_the_simplest_case_that_fails_alone() -> None:
    first, simplest = with_dims(T=450, D=64), with_dims(T=200)
    runner = ImmediateRunner(lambda case: facts(case, many_rows))
    found = triage(runner).finding(sighting(first, simplest, many_rows), LIMITS)
    smallest = facts(with_dims(T=3), many_rows)
    (fail,) = JUDGE.judge(OP, smallest, {}).fails
    assert found == Finding(
        fail=fail,
        case=with_dims(T=3),
        launch=smallest.launches[0],
        first_case=first,
        sightings=9,
        confirmed=True,
        repeats=ReplayCount(shown=5, runs=5),
        cases=(first,),
        libraries=("fla-core==0.5.2",),
        first_seen=FirstSeen(case_number=1, seconds=0.0),
    )
    assert runner.alone == [(simplest,), *[(with_dims(T=3),)] * 6]


def test_a_failure_that_does_not_repeat_is_unconfirmed() -> None:
    first, simplest = with_dims(T=450, D=64), with_dims(T=200)
    runner = ImmediateRunner(lambda case: facts(case, never))
    found = triage(runner).finding(sighting(first, simplest, many_rows), LIMITS)
    assert (found.case, found.confirmed, found.launch) == (first, False, None)
    assert found.repeats == ReplayCount(shown=0, runs=10, other_result="passed")
    assert runner.alone == [(simplest,), *[(first,)] * 11]
    assert runner.ran == []


def test_a_case_that_is_set_aside_is_reported_as_it_was_seen() -> None:
    runner = ImmediateRunner(lambda case: facts(case, many_rows))
    seen = sighting(with_dims(T=450), with_dims(T=200), many_rows)
    found = replace(triage(runner), is_set_aside=lambda _: True).finding(seen, LIMITS)
    assert (found.case, found.confirmation, runner.alone, runner.ran) == (with_dims(T=450), "not tried", [], [])


class FlakyRunner(ImmediateRunner):
    """Shows the failure alone every third time."""

    def run_alone(
        self, request: RunRequest, before: Sequence[Case] = (), *, patience: Patience = Patience.USUAL
    ) -> Run:
        del patience
        case = case_of(request)
        self.alone.append((*before, case))
        return facts(case, many_rows if len(self.alone) % 3 == 0 else never)


def test_a_flaky_failure_reports_its_rate_and_the_other_result() -> None:
    first = with_dims(T=450, D=64)
    found = triage(FlakyRunner(make=lambda case: facts(case, never))).finding(sighting(first, first, many_rows), LIMITS)
    assert (found.case, found.confirmed) == (first, True)
    assert found.repeats == ReplayCount(shown=3, runs=10, other_result="passed")
    assert found.repeats.is_flaky


@pytest.mark.parametrize(
    ("repeats", "low", "high"),
    [
        # Newcombe, Two-sided confidence intervals for the single proportion, Statistics in Medicine 17 (1998), table I
        (ReplayCount(shown=81, runs=263), 0.2553, 0.3662),
        (ReplayCount(shown=15, runs=148), 0.0624, 0.1605),
        (ReplayCount(shown=0, runs=20), 0.0, 0.1611),
        (ReplayCount(shown=29, runs=29), 0.8830, 1.0),
    ],
)
def test_the_rate_of_a_flaky_failure_has_a_wilson_interval(repeats: ReplayCount, low: float, high: float) -> None:
    assert repeats.interval == pytest.approx((low, high), abs=1e-4)


def test_thirty_failures_of_three_bugs_are_three_findings() -> None:
    statistics = CampaignStatistics()
    kernels = [f"kernel_{number}" for number in range(3)]
    for number in range(30):
        case = with_dims(T=3 + number)
        (fail,) = JUDGE.judge(OP, facts(case, many_rows), {}).fails
        signature = replace(fail.signature, kernel=kernels[number % 3])
        trial = Trial(number=number, op=OP, case=case, batch=None, home_sm_count=DEVICE.sm_count)
        statistics.sight(replace(fail, signature=signature), trial, (number,))
    assert [(one.count, len(one.cases)) for one in statistics.in_order()] == [(10, 10)] * 3


def test_a_shrunk_case_that_fails_only_after_others_is_not_reported() -> None:
    class StatefulRunner(ImmediateRunner):
        """Shows the failure with few rows only in a process that has run cases before."""

        def run_alone(
            self, request: RunRequest, before: Sequence[Case] = (), *, patience: Patience = Patience.USUAL
        ) -> Run:
            run = super().run_alone(request, before, patience=patience)
            return run if case_of(request).dims["T"] > 100 else replace(run, memory=())

    first = with_dims(T=450, D=64)
    runner = StatefulRunner(lambda case: facts(case, many_rows))
    found = triage(runner).finding(sighting(first, first, many_rows), LIMITS)
    assert (found.case, found.confirmed) == (first, True)


class NeedsEarlierCase(ImmediateRunner):
    """Shows the failure only in a process that has run a case with 77 rows."""

    def run_alone(
        self, request: RunRequest, before: Sequence[Case] = (), *, patience: Patience = Patience.USUAL
    ) -> Run:
        del patience
        case = case_of(request)
        self.alone.append((*before, case))
        return facts(case, many_rows if any(one.dims["T"] == 77 for one in before) else never)


def test_a_failure_that_needs_an_earlier_case_names_it() -> None:
    first, culprit = with_dims(T=450, D=64), with_dims(T=77)
    earlier = [with_dims(T=rows) for rows in range(1, 17)]
    earlier[5] = culprit
    seen = sighting(first, first, many_rows)
    seen.first = replace(seen.first, before=tuple(earlier))
    found = triage(NeedsEarlierCase(make=lambda case: facts(case, never))).finding(seen, LIMITS)
    assert (found.case, found.preceding_case, found.confirmed) == (first, culprit, True)


def test_a_failure_that_no_earlier_case_explains_is_unconfirmed() -> None:
    first = with_dims(T=450, D=64)
    seen = sighting(first, first, many_rows)
    seen.first = replace(seen.first, before=tuple(with_dims(T=rows) for rows in range(1, 17)))
    runner = NeedsEarlierCase(make=lambda case: facts(case, never))
    found = triage(runner).finding(seen, LIMITS)
    assert (found.preceding_case, found.confirmed, len(runner.alone)) == (None, False, 2 + 10)


COMPLETES = Judge(oracles=(registry.find("completes"),))


class SlowRunner(ImmediateRunner):
    """With many rows, times out within the usual limit and completes within a longer one."""

    def __init__(self, ends_after_s: float) -> None:
        super().__init__(lambda case: self.timed_out(case) if many_rows(case) else facts(case, never))
        self.ends_after_s = ends_after_s
        self.patience: list[Patience] = []

    def timed_out(self, case: Case, limit_s: float = 60.0) -> Run:
        ending = TimedOut(limit_s=limit_s, log_tail="", launch="spin_kernel", waiting=HungParty.DEVICE)
        return Run(case=case, engine="cuda", ending=ending)

    def run(self, request: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        self.patience.append(patience)
        return super().run(request)

    def run_alone(
        self, request: RunRequest, before: Sequence[Case] = (), *, patience: Patience = Patience.USUAL
    ) -> Run:
        run = super().run_alone(request, before)
        if patience is not Patience.LONG or not isinstance(run.ending, TimedOut):
            return run
        if self.ends_after_s > 180:
            return self.timed_out(run.case, 180.0)
        return replace(facts(run.case, never), overtime=Overtime(limit_s=60.0, took_s=self.ends_after_s))


def hanging(case: Case, runner: SlowRunner) -> Sighting:
    (fail,) = COMPLETES.judge(OP, runner.timed_out(case), {}).fails
    trial = Trial(number=0, op=OP, case=case, batch=None, home_sm_count=DEVICE.sm_count)
    return Sighting(fail=fail, first=trial, simplest=trial, simplest_key=(), count=1)


def test_a_hang_is_confirmed_with_more_time_and_shrunk_with_less() -> None:
    runner = SlowRunner(ends_after_s=1e9)
    case = with_dims(T=450, D=64)
    found = replace(triage(runner), judge=COMPLETES).finding(hanging(case, runner), LIMITS)
    assert (found.case, found.confirmed) == (with_dims(T=3), True)
    assert found.fail.message == "no answer came within 180 s: the device spins in spin_kernel"
    assert set(runner.patience) == {Patience.HURRIED}


def test_a_case_that_completes_with_more_time_is_slow_and_no_hang() -> None:
    runner = SlowRunner(ends_after_s=75.0)
    case = with_dims(T=450, D=64)
    found = replace(triage(runner), judge=COMPLETES).finding(hanging(case, runner), LIMITS)
    assert (found.case, found.fail.signature.severity, found.fail.signature.place) == (case, Severity.WARNING, "slow")
    assert found.fail.message == "the case completed after 75.0 s, past its time limit of 60 s"
    assert (runner.alone, runner.ran) == ([(case,)], [])


@dataclass
class FakeBlaming:
    """Blames the assembler, in cases of at least so many rows; it names the kernel in a second step."""

    from_rows: int = 0
    claimed: set[str] = field(default_factory=set[str])
    rows: list[int] = field(default_factory=list[int])

    def blames(self, fail: Fail, op: Op, confirmed: Examination) -> Iterator[HardwareBlame]:
        del fail, op
        self.rows.append(confirmed.run.case.dims["T"])
        if self.rows[-1] < self.from_rows:
            yield HardwareBlame(blame=Blame.LIBRARY)
            return
        blame = HardwareBlame(blame=Blame.ASSEMBLER, assembler="ptxas 12.8.93 for sm_90a")
        yield blame
        yield replace(blame, kernels=(KERNEL,))

    def claims(self, cause: str, signature: Signature) -> bool:
        del signature
        is_first = cause not in self.claimed
        self.claimed.add(cause)
        return is_first


def blamed(blaming: FakeBlaming) -> list[Finding]:
    first = with_dims(T=450, D=64)
    runner = ImmediateRunner(lambda case: facts(case, many_rows))
    on_hardware = replace(triage(runner), blaming=blaming)
    return list(on_hardware.turns(sighting(first, first, many_rows), LIMITS, lambda: LIMITS.seconds))


def test_a_confirmed_failure_on_hardware_is_blamed_before_it_is_shrunk() -> None:
    found = blamed(FakeBlaming())
    kernels = [None if one.hardware_blame is None else one.hardware_blame.kernels for one in found]
    assert kernels == [None, (), (KERNEL,), (KERNEL,), (KERNEL,)]
    assert [one.case.dims["T"] for one in found] == [450, 450, 450, 3, 3]


def test_only_one_failure_of_a_miscompilation_is_shrunk() -> None:
    found = blamed(FakeBlaming(claimed={"ptxas 12.8.93 for sm_90a makes wrong code"}))
    assert [one.case.dims["T"] for one in found] == [450, 450, 450]
    assert found[-1].hardware_blame is not None


def test_a_smaller_case_that_fails_for_another_reason_is_not_reported() -> None:
    blaming = FakeBlaming(from_rows=100)
    assert {one.case.dims["T"] for one in blamed(blaming)} == {450}
    assert blaming.rows == [450, 3]
