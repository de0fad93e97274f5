"""A campaign: the same cases for the same seed whatever the timing, every failure recorded, and the budget kept."""

from concurrent.futures import Future
from dataclasses import replace

import pytest

from harness.errors import WorkerError
from harness.model.case import Case
from harness.model.kernel_resources import Resources
from harness.model.op import Dim
from harness.model.paired_run import RunRequest, case_of
from harness.model.run import Launch, Run
from harness.model.verdict import Severity, Signature
from harness.oracles import registry
from harness.oracles.sm_invariance import SM_COUNTS
from harness.search.campaign import Campaign
from harness.search.campaign_statistics import CampaignStatistics
from harness.search.judge import Judge
from harness.search.plan import BATCH_SIZE, CaseBudget, Plan, TimeBudget, other_sm_counts
from harness.search.runner import Runner
from harness.search.sort_key import plainness
from harness.search.strategies import scouts
from tests.search.fakes import DEVICE, KERNEL, OP, AtOnce, Silent, clean, facts, out_of_order, unsupported

pytestmark = pytest.mark.once

PLAN = Plan(ops=(OP,), devices=(DEVICE,), budget=CaseBudget(cases=120), seed=5)
ALONE = Judge(oracles=(registry.find("write-overlap"),))
"""A judge who asks for no companions."""


def overlaps(case: Case) -> bool:
    return case.dims["T"] % 8 == 1 and case.dims["T"] > case.dims["G"]


def buggy(case: Case) -> Run:
    return facts(case, overlaps)


def search(
    runner: Runner, plan: Plan = PLAN, judge: Judge = ALONE, watcher: Silent | None = None
) -> CampaignStatistics:
    return Campaign(plan, runner, judge, watcher or Silent(), processes=3).run()


def digests(cases: list[Case]) -> set[str]:
    return {case.digest for case in cases}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_cases_do_not_depend_on_the_order_in_which_runs_come_back(seed: int) -> None:
    steady = AtOnce(buggy)
    expected = search(steady, judge=Judge())
    with out_of_order(buggy, seed) as runner:
        found = search(runner, judge=Judge())
    assert digests(runner.ran) == digests(steady.ran)
    assert replace_seconds(found) == replace_seconds(expected)


def replace_seconds(tally: CampaignStatistics) -> CampaignStatistics:
    tally.seconds = 0.0
    return tally


def test_another_seed_gives_other_cases() -> None:
    one, other = AtOnce(clean), AtOnce(clean)
    search(one)
    search(other, replace(PLAN, seed=6))
    assert len(digests(one.ran) & digests(other.ran)) < 30


@pytest.mark.parametrize("cases", [1, 2, 3, 17, 120])
def test_a_budget_of_cases_is_used_up_exactly(cases: int) -> None:
    runner = AtOnce(clean)
    tally = search(runner, replace(PLAN, budget=CaseBudget(cases=cases)))
    assert (tally.cases, tally.passed, len(runner.ran)) == (cases, cases, cases)


def test_no_case_is_tried_twice() -> None:
    runner = AtOnce(clean)
    search(runner)
    assert len(digests(runner.ran)) == len(runner.ran)


def test_a_budget_of_time_that_is_over_begins_nothing() -> None:
    runner = AtOnce(clean)
    tally = search(runner, replace(PLAN, budget=TimeBudget(seconds=0.0)))
    assert (tally.cases, tally.judged, runner.ran) == (0, 0, [])


def test_an_op_with_few_cases_ends_the_campaign_when_all_were_tried() -> None:
    small = replace(
        OP,
        dims={"T": Dim(low=1, high=2), "D": Dim(low=1, high=1), "G": Dim(low=1, high=1)},
        inputs={},
        dtypes=OP.dtypes[:1],
    )
    runner = AtOnce(lambda case: replace(clean(case), launches=()))
    plan = replace(PLAN, ops=(small,), budget=CaseBudget(cases=10**6), fixed_sm_count=True)
    tally = search(runner, plan, Judge(oracles=()))
    assert tally.cases == len({replace(case, seed=0).digest for case in runner.ran}) < 100


def test_what_launches_show_guides_the_next_cases() -> None:
    runner = AtOnce(clean)
    search(runner)
    assert {case.configs.get(KERNEL, 0) for case in runner.ran} == set(range(6))
    assert {31, 33, 63, 65, 95, 97} & {case.dims["T"] for case in runner.ran}


def test_a_failure_is_told_once_and_counted_always() -> None:
    watcher, runner = Silent(), AtOnce(buggy)
    tally = search(runner, watcher=watcher)
    failing = [case for case in runner.ran if overlaps(case)]
    signature = Signature(
        oracle="write-overlap", severity=Severity.WARNING, op=OP.id, kernel=KERNEL, place="layernorm.py:431"
    )
    assert [fail.signature for fail in watcher.sightings] == [signature]
    (sighting,) = tally.in_order()
    assert (sighting.count, sighting.first.case) == (len(failing), failing[0])
    assert (tally.cases, tally.failed, tally.passed) == (120, len(failing), 120 - len(failing))


def test_triage_begins_from_the_plainest_case_that_was_seen() -> None:
    runner = AtOnce(buggy)
    (sighting,) = search(runner).in_order()
    failing = [case for case in runner.ran if overlaps(case)]
    at_home = [case for case in failing if case.device == DEVICE]
    assert sighting.plainest.case in at_home
    assert sighting.plainest.case == min(at_home, key=lambda case: plainness(OP, case, DEVICE.sm_count))


def test_what_cannot_be_judged_is_never_counted_as_a_pass() -> None:
    tally = search(AtOnce(unsupported), judge=Judge())
    assert (tally.cases, tally.passed, tally.failed, tally.abstained, tally.judged) == (120, 0, 0, 120, 0)
    assert set(tally.reasons.values()) == {120}
    assert "tt.histogram" in min(tally.reasons)


def test_few_sm_counts_are_used_and_the_devices_own_most() -> None:
    runner = AtOnce(clean)
    search(runner, replace(PLAN, budget=CaseBudget(cases=300)))
    counts = [case.device.sm_count for case in runner.ran]
    others = set(counts) - {DEVICE.sm_count}
    assert others <= set(other_sm_counts(DEVICE, PLAN.seed))
    assert others
    assert counts.count(DEVICE.sm_count) > len(counts) / 2


def test_other_sm_counts_are_three_and_begin_with_those_that_oracles_compare() -> None:
    counts = other_sm_counts(DEVICE, seed=1)
    assert (len(counts), counts[:2], DEVICE.sm_count in counts) == (3, SM_COUNTS, False)
    assert counts != other_sm_counts(DEVICE, seed=2)


def test_a_fixed_sm_count_is_kept() -> None:
    runner = AtOnce(clean)
    search(runner, replace(PLAN, fixed_sm_count=True))
    assert {case.device for case in runner.ran} == {DEVICE}


def test_all_ops_and_devices_take_turns() -> None:
    other = replace(OP, name="rms_norm")
    runner = AtOnce(clean)
    h200 = replace(DEVICE, slug="h200")
    search(runner, replace(PLAN, ops=(OP, other), devices=(DEVICE, h200)))
    pairs = [(case.op_name, case.device.slug) for case in runner.ran]
    assert set(pairs) == {(op, device) for op in ("layer_norm", "rms_norm") for device in ("rtx-pro-6000", "h200")}
    assert min(pairs.count(pair) for pair in pairs) >= 10


def test_an_interrupt_leaves_what_was_counted() -> None:
    def make(case: Case) -> Run:
        if len(runner.ran) > 50:
            raise KeyboardInterrupt
        return buggy(case)

    runner = AtOnce(make)
    campaign = Campaign(PLAN, runner, ALONE, Silent(), processes=1)
    with pytest.raises(KeyboardInterrupt):
        campaign.run()
    assert campaign.tally.cases >= 48
    assert campaign.tally.sightings


@pytest.mark.parametrize("seed", [1, 2])
def test_campaigns_beside_one_another_find_and_run_what_each_would_alone(seed: int) -> None:
    other_op = replace(OP, name="rms_norm")
    plans = [replace(PLAN, budget=CaseBudget(cases=40), ops=(op,)) for op in (OP, other_op)]
    alone = [AtOnce(buggy), AtOnce(buggy)]
    expected = [replace_seconds(search(runner, plan)) for runner, plan in zip(alone, plans, strict=True)]
    with out_of_order(buggy, seed) as shared:
        first, second = (Campaign(plan, shared, ALONE, Silent(), processes=3) for plan in plans)
        first.run(beside=[second])
        begun = second.tally.cases
        second.run()
    assert begun > 0
    assert [replace_seconds(one.tally) for one in (first, second)] == expected
    assert digests(shared.ran) == digests(alone[0].ran) | digests(alone[1].ran)


def test_what_goes_wrong_in_a_campaign_is_told_to_whoever_runs_it_and_to_nobody_beside() -> None:
    def broken(case: Case) -> Run:
        raise WorkerError(f"no worker for {case.op_name}")

    plan = replace(PLAN, budget=CaseBudget(cases=20))
    first = Campaign(plan, AtOnce(clean), ALONE, Silent(), processes=1)
    second = Campaign(plan, AtOnce(broken), ALONE, Silent(), processes=1)
    assert first.run(beside=[second]).cases == 20
    with pytest.raises(WorkerError, match="no worker for layer_norm"):
        second.run()


class Compiler:
    """Knows no resources until the campaign settles."""

    def __init__(self) -> None:
        self.settled = False

    def of(self, launch: Launch) -> Resources | None:
        del launch
        if not self.settled:
            return None
        return Resources(
            registers_per_thread=32,
            spill_bytes=0,
            shared_bytes=300_000,
            tensor_memory_columns=0,
            scratch_bytes_per_program=0,
            threads=128,
        )

    def settle(self) -> None:
        self.settled = True


def test_resources_that_are_known_late_are_still_judged() -> None:
    def make(case: Case) -> Run:
        run = clean(case)
        return replace(run, launches=tuple(replace(launch, config_count=1) for launch in run.launches))

    tally = search(AtOnce(make), judge=Judge(oracles=(registry.find("resources"),), resources=Compiler()))
    (sighting,) = tally.in_order()
    assert (sighting.fail.oracle, sighting.fail.signature.place, sighting.count) == ("resources", "shared memory", 1)


def test_where_no_compiler_runs_beside_the_search_nobody_says_that_it_was_not_done() -> None:
    on_virtual, on_hardware = search(AtOnce(clean)), search(AtOnce(lambda case: replace(clean(case), engine="cuda")))
    assert (on_virtual.builds, on_hardware.builds) == (1, 0)


def test_when_time_is_up_what_has_not_begun_is_dropped_and_what_ran_is_counted() -> None:
    class Slow(AtOnce):
        """Every other case waits for its turn, and it never comes."""

        def submit(self, wanted: RunRequest) -> Future[Run]:
            self.asked.append(super().submit(wanted) if len(self.asked) % 2 else Future[Run]())
            return self.asked[-1]

        asked: list[Future[Run]] = []  # noqa: RUF012 - of this one runner

    runner = Slow(clean)
    tally = search(runner, replace(PLAN, budget=TimeBudget(seconds=0.2)))
    waiting = [future for future in runner.asked if not future.done() or future.cancelled()]
    assert waiting
    assert all(future.cancelled() for future in waiting)
    assert tally.cases == len(runner.ran) == len(runner.asked) - len(waiting)


FAMILIES = replace(
    PLAN,
    ops=(replace(OP, dims={**OP.dims, "T": Dim(low=1, high=2048, grows=True)}),),
    budget=CaseBudget(cases=200),
    kin=True,
)


def test_kin_of_what_ran_are_cases_of_the_campaign_and_the_budget_counts_them() -> None:
    runner = AtOnce(buggy)
    tally = search(runner, FAMILIES)
    assert (tally.cases, len(digests(runner.ran))) == (200, 200)
    alone = AtOnce(buggy)
    search(alone, replace(FAMILIES, kin=False))
    assert digests(runner.ran) != digests(alone.ran)


def test_what_is_drawn_does_not_depend_on_how_many_kin_run() -> None:
    def drawn(*, kin: bool) -> list[str]:
        taken: list[str] = []

        class Noting(AtOnce):
            def submit(self, wanted: RunRequest) -> Future[Run]:
                taken.append(case_of(wanted).digest)
                return super().submit(wanted)

        runner = Noting(clean)
        plan = replace(FAMILIES, kin=kin, budget=CaseBudget(cases=120))
        twins = AtOnce(clean)
        Campaign(plan, runner, ALONE, Silent(), processes=1, submit_twin=twins.submit).run()
        assert bool(twins.ran) == kin
        return taken

    beside, alone = drawn(kin=True), drawn(kin=False)
    first = len(scouts(FAMILIES.ops[0], DEVICE)) + BATCH_SIZE
    assert beside[:first] == alone[:first]


def test_what_did_not_run_to_its_end_has_no_kin() -> None:
    runner = AtOnce(unsupported)
    beside = AtOnce(clean)
    plan = replace(FAMILIES, budget=CaseBudget(cases=60))
    Campaign(plan, runner, ALONE, Silent(), processes=1, submit_twin=beside.submit).run()
    assert (len(runner.ran), beside.ran) == (60, [])


def test_a_failure_that_only_kin_show_is_sighted_with_no_batch_to_draw_it_from() -> None:
    alone = AtOnce(clean)
    search(alone, replace(FAMILIES, kin=False))
    drawn = digests(alone.ran)
    tally = search(AtOnce(lambda case: facts(case, lambda case: case.digest not in drawn)), FAMILIES)
    (sighting,) = tally.in_order()
    assert sighting.plainest.batch is None
