"""A campaign runs the same cases for the same seed, records every failure, and keeps its budget."""

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace

import pytest

from harness.errors import WorkerError
from harness.execution.paired_run_policy import is_sampled
from harness.execution.reruns import Rerun, autotuner_check
from harness.model.case import Case
from harness.model.kernel_resources import Resources
from harness.model.op import Dim
from harness.model.paired_run import PairedRunRequest, RunRequest, case_of
from harness.model.run import Launch, Refused, Run
from harness.model.verdict import Severity, Signature
from harness.oracles import registry
from harness.oracles.sm_invariance import SM_COUNTS
from harness.search import case_queue
from harness.search.campaign import Campaign, CampaignWorkers
from harness.search.campaign_plan import BATCH_SIZE, CampaignPlan, CaseBudget, TimeBudget, other_sm_counts
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.case_queue import CaseQueue
from harness.search.judge import Judge
from harness.search.runner import NoResources, Runner
from harness.search.sort_key import sort_key
from harness.search.strategies import scouts
from harness.workers.supervision.time_limits import Patience
from tests.search.fakes import (
    DEVICE,
    KERNEL,
    OP,
    ImmediateRunner,
    RecordingRunner,
    Silent,
    clean,
    facts,
    out_of_order,
    unsupported,
)

PLAN = CampaignPlan(ops=(OP,), devices=(DEVICE,), budget=CaseBudget(cases=120), seed=5)
ALONE = Judge(oracles=(registry.find("write-overlap"),))
"""A judge that requests no paired runs."""


def overlaps(case: Case) -> bool:
    return case.dims["T"] % 8 == 1 and case.dims["T"] > case.dims["G"]


def buggy(case: Case) -> Run:
    return facts(case, overlaps)


def search(
    runner: Runner, plan: CampaignPlan = PLAN, judge: Judge = ALONE, watcher: Silent | None = None
) -> CampaignStatistics:
    return Campaign(plan, CampaignWorkers(runner=runner, processes=3), judge, watcher or Silent()).run()


def digests(cases: list[Case]) -> set[str]:
    return {case.digest for case in cases}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cases_do_not_depend_on_the_order_of_runs(seed: int) -> None:
    steady = ImmediateRunner(buggy)
    expected = search(steady, judge=Judge())
    with out_of_order(buggy, seed) as runner:
        found = search(runner, judge=Judge())
    assert digests(runner.ran) == digests(steady.ran)
    assert replace_seconds(found) == replace_seconds(expected)


def replace_seconds(statistics: CampaignStatistics) -> CampaignStatistics:
    statistics.seconds = 0.0
    return statistics


def test_another_seed_gives_other_cases() -> None:
    one, other = ImmediateRunner(clean), ImmediateRunner(clean)
    search(one)
    search(other, replace(PLAN, seed=6))
    assert len(digests(one.ran) & digests(other.ran)) < 30


@pytest.mark.parametrize("cases", [1, 2, 3, 17, 120])
def test_a_case_budget_is_used_up_exactly(cases: int) -> None:
    runner = ImmediateRunner(clean)
    statistics = search(runner, replace(PLAN, budget=CaseBudget(cases=cases)))
    assert (statistics.cases, statistics.passed, len(runner.ran)) == (cases, cases, cases)


def test_no_case_runs_twice() -> None:
    runner = ImmediateRunner(clean)
    search(runner)
    assert len(digests(runner.ran)) == len(runner.ran)


def test_a_time_budget_of_zero_starts_no_case() -> None:
    runner = ImmediateRunner(clean)
    statistics = search(runner, replace(PLAN, budget=TimeBudget(seconds=0.0)))
    assert (statistics.cases, statistics.checked, runner.ran) == (0, 0, [])


def test_an_op_with_few_cases_ends_the_campaign_early() -> None:
    small = replace(
        OP,
        dims={"T": Dim(low=1, high=2), "D": Dim(low=1, high=1), "G": Dim(low=1, high=1)},
        inputs={},
        dtypes=OP.dtypes[:1],
    )
    runner = ImmediateRunner(lambda case: replace(clean(case), launches=()))
    plan = replace(PLAN, ops=(small,), budget=CaseBudget(cases=10**6), fixed_sm_count=True)
    statistics = search(runner, plan, Judge(oracles=()))
    again = 1  # a scout, with a seed that asks for second runs
    assert statistics.cases - again == len({replace(case, seed=0).digest for case in runner.ran}) < 200


def test_a_search_with_time_and_cases_ends_with_what_comes_first() -> None:
    runner = ImmediateRunner(clean)
    assert search(runner, replace(PLAN, budget=TimeBudget(seconds=3600, cases=40))).cases == 40
    assert search(runner, replace(PLAN, budget=TimeBudget(seconds=0.0, cases=40))).cases < 40


def test_launch_feedback_guides_the_next_cases() -> None:
    runner = ImmediateRunner(clean)
    search(runner)
    assert {case.configs.get(KERNEL, 0) for case in runner.ran} == set(range(6))
    assert {31, 33, 63, 65, 95, 97} & {case.dims["T"] for case in runner.ran}


def test_a_signature_is_reported_once_and_every_failure_is_counted() -> None:
    watcher, runner = Silent(), ImmediateRunner(buggy)
    statistics = search(runner, watcher=watcher)
    failing = [case for case in runner.ran if overlaps(case)]
    signature = Signature(
        oracle="write-overlap", severity=Severity.WARNING, op=OP.id, kernel=KERNEL, place="layernorm.py:431"
    )
    assert [fail.signature for fail in watcher.sightings] == [signature]
    (sighting,) = statistics.in_order()
    assert (sighting.count, sighting.first.case) == (len(failing), failing[0])
    assert (statistics.cases, statistics.failed, statistics.passed) == (120, len(failing), 120 - len(failing))


def test_a_sighting_keeps_the_simplest_case() -> None:
    runner = ImmediateRunner(buggy)
    (sighting,) = search(runner).in_order()
    failing = [case for case in runner.ran if overlaps(case)]
    at_home = [case for case in failing if case.device == DEVICE]
    assert sighting.simplest.case in at_home
    assert sighting.simplest.case == min(at_home, key=lambda case: sort_key(OP, case, DEVICE.sm_count))


def test_an_abstained_case_never_counts_as_a_pass() -> None:
    statistics = search(ImmediateRunner(unsupported), judge=Judge())
    assert (statistics.cases, statistics.passed, statistics.failed, statistics.abstained, statistics.checked) == (
        120,
        0,
        0,
        120,
        0,
    )
    assert set(statistics.reasons.values()) == {120}
    assert "tt.histogram" in min(statistics.reasons)


def test_most_cases_run_on_the_devices_own_sm_count() -> None:
    runner = ImmediateRunner(clean)
    search(runner, replace(PLAN, budget=CaseBudget(cases=300)))
    counts = [case.device.sm_count for case in runner.ran]
    others = set(counts) - {DEVICE.sm_count}
    assert others <= set(other_sm_counts(DEVICE, PLAN.seed))
    assert others
    assert counts.count(DEVICE.sm_count) > len(counts) / 2


def test_the_other_sm_counts_begin_with_those_that_oracles_compare() -> None:
    counts = other_sm_counts(DEVICE, seed=1)
    assert (len(counts), counts[:2], DEVICE.sm_count in counts) == (3, SM_COUNTS, False)
    assert counts != other_sm_counts(DEVICE, seed=2)


def test_a_fixed_sm_count_is_kept() -> None:
    runner = ImmediateRunner(clean)
    search(runner, replace(PLAN, fixed_sm_count=True))
    assert {case.device for case in runner.ran} == {DEVICE}


def test_all_ops_and_devices_take_turns() -> None:
    other = replace(OP, name="rms_norm")
    runner = ImmediateRunner(clean)
    h200 = replace(DEVICE, slug="h200")
    search(runner, replace(PLAN, ops=(OP, other), devices=(DEVICE, h200)))
    pairs = [(case.op_name, case.device.slug) for case in runner.ran]
    assert set(pairs) == {(op, device) for op in ("layer_norm", "rms_norm") for device in ("rtx-pro-6000", "h200")}
    assert min(pairs.count(pair) for pair in pairs) >= 10


def test_all_ops_have_a_batch_on_the_first_device_before_the_next_begins() -> None:
    other = replace(OP, name="rms_norm")
    runner = ImmediateRunner(clean)
    devices = (DEVICE, replace(DEVICE, slug="h200"), replace(DEVICE, slug="b200"))
    search(runner, replace(PLAN, ops=(OP, other), devices=devices))
    begun = list(dict.fromkeys(case.device.slug for case in runner.ran))
    assert begun == [device.slug for device in devices]
    before = runner.ran[: next(number for number, case in enumerate(runner.ran) if case.device.slug == "h200")]
    assert min(Counter(case.op_name for case in before).values()) > BATCH_SIZE


def test_an_op_that_a_device_declines_begins_on_the_next() -> None:
    def declines(case: Case) -> Run:
        run = clean(case)
        return replace(run, ending=Refused(message="not on this GPU")) if case.device == DEVICE else run

    runner = ImmediateRunner(declines)
    h200 = replace(DEVICE, slug="h200")
    search(runner, replace(PLAN, devices=(DEVICE, h200), budget=CaseBudget(cases=20)))
    assert Counter(case.device.slug for case in runner.ran) == {DEVICE.slug: 2, "h200": 18}


def test_the_first_cases_of_an_op_have_neither_second_runs_nor_other_configs() -> None:
    runner = ImmediateRunner(clean)
    search(runner, replace(PLAN, budget=CaseBudget(cases=2 + BATCH_SIZE)))
    assert {case.configs.get(KERNEL, 0) for case in runner.ran} == {0}
    assert not any(map(is_sampled, runner.ran[:2]))


def test_every_check_of_autotuners_comes_after_the_first_batch() -> None:
    runner = ImmediateRunner(clean)
    search(runner, replace(PLAN, budget=CaseBudget(cases=2 + BATCH_SIZE + 3)))
    assert [autotuner_check(case) for case in runner.ran[-3:]] == [Rerun.TUNING, Rerun.TUNING, Rerun.KEYS]


def test_an_interrupt_keeps_the_counts() -> None:
    def make(case: Case) -> Run:
        if len(runner.ran) > 50:
            raise KeyboardInterrupt
        return buggy(case)

    runner = ImmediateRunner(make)
    campaign = Campaign(PLAN, CampaignWorkers(runner=runner, processes=1), ALONE, Silent())
    with pytest.raises(KeyboardInterrupt):
        campaign.run()
    assert campaign.statistics.cases >= 48
    assert campaign.statistics.sightings


@pytest.mark.parametrize("seed", [1, 2])
def test_concurrent_campaigns_run_and_find_the_same_as_alone(seed: int) -> None:
    other_op = replace(OP, name="rms_norm")
    plans = [replace(PLAN, budget=CaseBudget(cases=40), ops=(op,)) for op in (OP, other_op)]
    alone = [ImmediateRunner(buggy), ImmediateRunner(buggy)]
    expected = [replace_seconds(search(runner, plan)) for runner, plan in zip(alone, plans, strict=True)]
    with out_of_order(buggy, seed) as shared:
        first, second = (Campaign(plan, CampaignWorkers(runner=shared, processes=3), ALONE, Silent()) for plan in plans)
        first.run(concurrent=[second])
        begun = second.statistics.cases
        second.run()
    assert begun > 0
    assert [replace_seconds(one.statistics) for one in (first, second)] == expected
    assert digests(shared.ran) == digests(alone[0].ran) | digests(alone[1].ran)


def test_an_error_is_raised_by_its_own_campaign_only() -> None:
    def broken(case: Case) -> Run:
        raise WorkerError(f"no worker for {case.op_name}")

    plan = replace(PLAN, budget=CaseBudget(cases=20))
    first = Campaign(plan, CampaignWorkers(runner=ImmediateRunner(clean), processes=1), ALONE, Silent())
    second = Campaign(plan, CampaignWorkers(runner=ImmediateRunner(broken), processes=1), ALONE, Silent())
    assert first.run(concurrent=[second]).cases == 20
    with pytest.raises(WorkerError, match="no worker for layer_norm"):
        second.run()


class Compiler:
    """Knows no resources until the campaign waits for them."""

    def __init__(self, shared_bytes: int = 300_000) -> None:
        self.is_settled = False
        self._shared_bytes = shared_bytes

    def of(self, launch: Launch) -> Resources | None:
        del launch
        if not self.is_settled:
            return None
        return Resources(
            registers_per_thread=32,
            spill_bytes=0,
            shared_bytes=self._shared_bytes,
            tensor_memory_columns=0,
            scratch_bytes_per_program=0,
            threads=128,
        )

    def wait_for(self, launches: Iterable[Launch], limit_s: float | None = None) -> None:
        pass

    def settle(self, limit_s: float | None = None) -> None:
        del limit_s
        self.is_settled = True


def test_resources_that_are_known_late_are_still_checked() -> None:
    def make(case: Case) -> Run:
        run = clean(case)
        return replace(run, launches=tuple(replace(launch, config_count=1) for launch in run.launches))

    statistics = search(ImmediateRunner(make), judge=Judge(oracles=(registry.find("resources"),), resources=Compiler()))
    (sighting,) = statistics.in_order()
    assert (sighting.fail.oracle, sighting.fail.signature.place, sighting.count) == ("resources", "shared memory", 1)


class TunedRunner(RecordingRunner):
    """Launches the first of two configs, and compiles both where it is asked to."""

    def run(self, request: RunRequest, *, patience: Patience = Patience.USUAL) -> Run:
        run = super().run(request, patience=patience)
        asked = isinstance(request, PairedRunRequest) and request.compiles_configs
        first = {"config_index": 0, "config_count": 2, "config_builds": ("b0", "b1") if asked else ()}
        return replace(run, launches=tuple(replace(launch, **first) for launch in run.launches))

    @property
    def asked(self) -> list[Case]:
        return [case_of(request) for request in self.submitted if isinstance(request, PairedRunRequest)]


def test_other_configs_are_compiled_late_where_the_first_does_not_fit() -> None:
    runner = TunedRunner(clean)
    statistics = search(runner, judge=Judge(oracles=(registry.find("resources"),), resources=Compiler()))
    (sighting,) = statistics.in_order()
    assert sighting.fail.signature.place.startswith("shared memory")
    (asked,) = runner.asked
    assert is_sampled(asked)


def test_no_other_configs_are_compiled_where_each_launch_fits() -> None:
    runner = TunedRunner(clean)
    judge = Judge(oracles=(registry.find("resources"),), resources=Compiler(shared_bytes=1024))
    assert not search(runner, judge=judge).sightings
    assert runner.asked == []


def test_a_search_without_the_resources_oracle_compiles_nothing() -> None:
    class Refusing(NoResources):
        def of(self, launch: Launch) -> Resources | None:
            raise AssertionError(launch)

    assert search(ImmediateRunner(clean), judge=replace(ALONE, resources=Refusing())).builds == 0


def test_builds_count_only_for_engines_that_leave_ttir() -> None:
    judge = Judge(oracles=(registry.find("resources"),))
    on_virtual, on_hardware = (
        search(ImmediateRunner(clean), judge=judge),
        search(ImmediateRunner(lambda case: replace(clean(case), engine="cuda")), judge=judge),
    )
    assert (on_virtual.builds, on_hardware.builds) == (1, 0)


def test_at_the_deadline_queued_cases_are_dropped() -> None:
    class Slow(ImmediateRunner):
        """Every other case waits forever."""

        def submit(self, request: RunRequest) -> Future[Run]:
            self.asked.append(super().submit(request) if len(self.asked) % 2 else Future[Run]())
            return self.asked[-1]

        asked: list[Future[Run]] = []  # noqa: RUF012 - of this one runner

    runner = Slow(clean)
    statistics = search(runner, replace(PLAN, budget=TimeBudget(seconds=0.2)))
    waiting = [future for future in runner.asked if not future.done() or future.cancelled()]
    assert waiting
    assert all(future.cancelled() for future in waiting)
    assert statistics.cases == len(runner.ran) == len(runner.asked) - len(waiting)


WITH_VARIANTS = replace(
    PLAN,
    ops=(replace(OP, dims={**OP.dims, "T": Dim(low=1, high=2048, grows=True)}),),
    budget=CaseBudget(cases=200),
    adds_variants=True,
)


def test_variants_count_towards_the_budget() -> None:
    runner = ImmediateRunner(buggy)
    statistics = search(runner, WITH_VARIANTS)
    assert (statistics.cases, len(digests(runner.ran))) == (200, 200)
    alone = ImmediateRunner(buggy)
    search(alone, replace(WITH_VARIANTS, adds_variants=False))
    assert digests(runner.ran) != digests(alone.ran)


def test_drawn_cases_do_not_depend_on_variants() -> None:
    def drawn(*, adds_variants: bool) -> list[str]:
        taken: list[str] = []

        class RecordingRunner(ImmediateRunner):
            def submit(self, request: RunRequest) -> Future[Run]:
                taken.append(case_of(request).digest)
                return super().submit(request)

        runner = RecordingRunner(clean)
        plan = replace(WITH_VARIANTS, adds_variants=adds_variants, budget=CaseBudget(cases=120))
        variants = ImmediateRunner(clean)
        Campaign(
            plan, CampaignWorkers(runner=runner, processes=1, submit_compiled=variants.submit), ALONE, Silent()
        ).run()
        assert bool(variants.ran) == adds_variants
        return taken

    with_variants, alone = drawn(adds_variants=True), drawn(adds_variants=False)
    first = len(scouts(WITH_VARIANTS.ops[0], DEVICE)) + BATCH_SIZE
    assert with_variants[:first] == alone[:first]


@pytest.mark.parametrize(("patience_s", "draws_on"), [(1e9, False), (-1.0, True)])
def test_late_verdicts_hold_up_the_next_batch_for_seconds_only(
    patience_s: float,
    draws_on: bool,  # noqa: FBT001 - a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = CaseQueue(replace(WITH_VARIANTS, budget=TimeBudget(seconds=60)))
    taken = [next_one for _ in range(3 * BATCH_SIZE) if (next_one := queue.take()) is not None]
    *judged, (late, _) = [(batch, trial) for batch, trial in taken if batch is not None and batch == taken[0][0]]
    assert late is not None
    for batch, trial in judged:
        assert batch is not None
        queue.record(batch, trial, ALONE.judge(trial.op, unsupported(trial.case), {}))
    monkeypatch.setattr(case_queue, "STRAGGLERS_S", patience_s)
    following = queue.take()
    assert (following is not None and following[0] is not None) == draws_on


def test_a_case_that_did_not_complete_has_no_variants() -> None:
    runner = ImmediateRunner(unsupported)
    variants = ImmediateRunner(clean)
    plan = replace(WITH_VARIANTS, budget=CaseBudget(cases=60))
    Campaign(plan, CampaignWorkers(runner=runner, processes=1, submit_compiled=variants.submit), ALONE, Silent()).run()
    assert (len(runner.ran), variants.ran) == (60, [])


def test_a_failure_of_a_variant_has_no_batch() -> None:
    alone = ImmediateRunner(clean)
    search(alone, replace(WITH_VARIANTS, adds_variants=False))
    drawn = digests(alone.ran)
    statistics = search(ImmediateRunner(lambda case: facts(case, lambda case: case.digest not in drawn)), WITH_VARIANTS)
    (sighting,) = statistics.in_order()
    assert sighting.simplest.batch is None
