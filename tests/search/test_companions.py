"""Companions of a campaign's cases: run beside them, and cases of their own where they break off."""

from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import pytest

from harness.model.agreement import Agreement, Plainer
from harness.model.case import Case
from harness.model.companion import Beside, Companion, Sketch, Wanted, case_of
from harness.model.run import Crashed, Faulted, FaultOf, Measure, Result, Role, Run
from harness.oracles import registry
from harness.oracles.sm_invariance import SM_COUNTS
from harness.search.campaign import Campaign
from harness.search.judging import Judge
from harness.search.plan import CaseBudget, Plan
from harness.search.runner import Runner
from harness.search.tally import Tally
from harness.workers.limits import Patience
from tests.search.pretence import DEVICE, KERNEL, OP, AtOnce, Silent, facts, never

pytestmark = pytest.mark.once

PLAN = Plan(ops=(OP,), devices=(DEVICE,), budget=CaseBudget(cases=120), seed=5)


def clean(case: Case) -> Run:
    return facts(case, never)


@dataclass
class Noting(AtOnce):
    """Remembers what it was asked for, companions and all."""

    submitted: list[Wanted] = field(default_factory=list[Wanted])

    def submit(self, wanted: Wanted) -> Future[Run]:
        self.submitted.append(wanted)
        return super().submit(wanted)


def search(runner: Runner, judge: Judge) -> Tally:
    return Campaign(PLAN, runner, judge, Silent(), processes=3).run()


def test_companions_are_run_and_count_as_no_case() -> None:
    runner = AtOnce(clean)
    tally = search(runner, Judge(oracles=(registry.find("sm-invariance"),)))
    companions = len(runner.ran) - tally.cases
    assert tally.cases == 120
    assert 0 < companions <= sum(case.seed % 8 == 0 for case in runner.ran)


def test_companions_are_wanted_beside_their_run_and_cases_by_themselves() -> None:
    runner = Noting(clean)
    tally = search(runner, Judge(oracles=(registry.find("sm-invariance"),)))
    assert sum(isinstance(one, Case) for one in runner.submitted) == tally.cases
    besides = [one for one in runner.submitted if isinstance(one, Beside)]
    assert besides
    assert {one.case.device.sm_count for one in besides} <= set(SM_COUNTS)


def test_a_companion_that_differs_is_run_whole_before_it_is_judged() -> None:
    """A wider tolerance of its own may explain what the run's does not."""

    def compared(case: Case, sketch: float, tolerance: float) -> Run:
        run = clean(case)
        measure = Measure(ratio=0.5, index=(0,), got=0.0, expected=0.0)
        result = Result(
            name="y",
            role=Role.OUTPUT,
            shape=(8,),
            whole=measure,
            worst_tile=measure,
            unwritten=0,
            first_unwritten=None,
            nonfinite=0,
            digest="aa",
            sketch=(sketch,),
            sketch_tolerance=(tolerance,),
        )
        return replace(run, results=(result,))

    class Differing(Noting):
        """Away from home the results are 3 further, which a tolerance of 5 allows and one of 1 does not."""

        def run(self, wanted: Wanted, *, patience: Patience = Patience.USUAL) -> Run:  # noqa: ARG002 - one limit for all
            case = case_of(wanted)
            away = case.device.sm_count in SM_COUNTS
            whole = compared(case, 3.0 * away, 1.0 + self.wider * away)
            if isinstance(wanted, Case):
                return whole
            sketches = tuple(replace(Sketch.of(result), tolerance=()) for result in whole.results)
            return Companion(case=case, engine="virtual", ending=whole.ending, sketches=sketches)

        wider = 4.0

    class Wrong(Differing):
        wider = 0.0

    judge = Judge(oracles=(registry.find("sm-invariance"),))
    runner = Differing(clean)
    assert list(search(runner, judge).in_order()) == []
    besides = [one.case for one in runner.submitted if isinstance(one, Beside)]
    assert any(case in runner.submitted for case in besides)
    assert [one.fail.oracle for one in search(Wrong(clean), judge).in_order()] == ["sm-invariance"]


def test_a_case_that_ends_on_the_real_gpu_alone_is_run_beside_itself_and_not_as_another_case() -> None:
    strayed = Faulted(fault=FaultOf.ILLEGAL_ADDRESS, message="an illegal memory access", launch=KERNEL)
    both = Agreement(gpu="NVIDIA H200", launches=1)

    class Straying(Noting):
        """The real GPU loses its context in every case, as plainer code too."""

        def run(self, wanted: Wanted, *, patience: Patience = Patience.USUAL) -> Run:
            run = replace(super().run(wanted, patience=patience), ending=strayed, agreement=both)
            if isinstance(wanted, Case):
                return run
            return Companion(case=run.case, engine=run.engine, ending=strayed, agreement=both)

    runner = Straying(clean)
    tally = search(runner, Judge(oracles=(registry.find("completes"),)))
    (sighting,) = tally.in_order()
    assert sighting.fail.message.endswith("it ends so, too, where ptxas does not optimise")
    assert (sighting.count, tally.cases) == (120, 120)
    wanted = [one for one in runner.submitted if isinstance(one, Beside)]
    assert {one.plainer for one in wanted} == {Plainer.UNOPTIMISED}
    assert len(wanted) == 120


def test_a_companion_that_breaks_off_is_run_as_a_case_of_its_own_and_found() -> None:
    class Crashing(Noting):
        """Away from home the process dies."""

        def run(self, wanted: Wanted, *, patience: Patience = Patience.USUAL) -> Run:
            run = super().run(wanted, patience=patience)
            if run.case.device.sm_count not in SM_COUNTS:
                return run
            died = Crashed(signal="SIGSEGV", status=None, log_tail="")
            if isinstance(wanted, Case):
                return replace(run, ending=died, launches=())
            return Companion(case=run.case, engine="virtual", ending=died)

    oracles = tuple(registry.find(name) for name in ("sm-invariance", "completes"))
    runner = Crashing(clean)
    tally = search(runner, Judge(oracles=oracles))
    (sighting,) = tally.in_order()
    besides = {one.case.digest: one.case for one in runner.submitted if isinstance(one, Beside)}
    again = [one for one in runner.submitted if isinstance(one, Case) and one.digest in besides]
    assert sighting.fail.oracle == "completes"
    assert sorted(one.digest for one in again) == sorted(besides)
    away = sum(isinstance(one, Case) and one.device.sm_count in SM_COUNTS for one in runner.submitted)
    assert (sighting.count, tally.cases) == (away, 120 + len(besides))
