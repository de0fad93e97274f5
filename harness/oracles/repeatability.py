"""The promise that the same case gives the same bits each time."""

from harness.model.flaw_kind import FlawKind
from harness.model.paired_run import SecondRun
from harness.model.run import Completed, Result, Run
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import describe, unfinished
from harness.oracles.traits import Causality, Need, Traits

NOT_REPEATED = "this case was not run a second time"


class Repeatability(SingleRunOracle):
    """Compares the digests of two runs of a case on a hardware GPU, unless a kernel uses atomics."""

    name = "repeatability"
    promise = "A second run of the same case computes every result again bit for bit, where no atomics are used."
    traits = Traits(
        rank=270,
        flaw=FlawKind.RACE,
        causality=Causality.RESULT,
        needs=frozenset({Need.RESULTS}),
        second_run=SecondRun.REPETITION,
        not_requested=frozenset({NOT_REPEATED}),
        varies_with_undefined_lanes=True,
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each result that differs."""
        run = evidence.run
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if run.repeated is None:
            return (Abstain(oracle=self.name, reason=NOT_REPEATED),)
        if any(launch.atomics for launch in run.launches):
            return (Abstain(oracle=self.name, reason="atomics may add up in any order"),)
        if not isinstance(run.repeated.ending, Completed):
            reason = f"the second time, {describe(run.repeated.ending)}"
            return (Abstain(oracle=self.name, reason=reason),)
        digests = run.repeated.digests
        differing = (result for result in run.results if digests.get(result.name) != result.digest)
        return tuple(self._fail(run, result) for result in differing) or (Pass(oracle=self.name),)

    def _fail(self, run: Run, result: Result) -> Fail:
        kernel, place = result.writer or ("", result.name)
        return Fail(
            signature=self.signature(run, kernel=kernel, place=place),
            message=f"{result.name} has other bits when the same case is run a second time",
            meaning="Nothing but the order in which programs, warps or threads happen to run can differ: a race.",
            source=run.source_of(kernel),
        )


ORACLES = (Repeatability(),)
