"""The promise that results do not depend on the number of SMs."""

from dataclasses import replace

from harness.execution.paired_run_policy import choice_number, is_sampled
from harness.model.case import Case
from harness.model.flaw_kind import FlawKind
from harness.model.paired_run import SecondRun
from harness.model.run import Run
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.base import Evidence, NamedOracle
from harness.oracles.endings import unfinished
from harness.oracles.run_comparison import Disagreement, disagreements
from harness.oracles.traits import Causality, Need, Proof, Traits
from harness.wording import counted

SM_COUNTS = (1, 304)
"""The SM counts of paired runs: one program for everything, and more programs than many inputs have rows.

They are always these two: libraries read the SM count once, so each count needs a fork server of its own.  Loading one
takes some seconds.
"""


class SmInvariance(NamedOracle):
    """Compares sampled cases with the same case at another SM count, by random projections of the results."""

    name = "sm-invariance"
    promise = "The results are the same, up to rounding, whatever the number of SMs."
    traits = Traits(
        rank=290,
        flaw=FlawKind.PROMISE,
        causality=Causality.RESULT,
        needs=frozenset({Need.COMPARABLE_RESULTS}),
        second_run=SecondRun.SM_COUNT,
        proof=Proof.COMPARED_RUNS,
        more_than_launch="the host code depends on the SM count",
    )

    def paired_runs(self, run: Run) -> tuple[Case, ...]:
        """Request the same case at another SM count, for one case in `ONE_CASE_IN`."""
        if unfinished(run) or not is_sampled(run.case):
            return ()
        device = run.case.device
        counts = [count for count in SM_COUNTS if count != device.sm_count]
        return (replace(run.case, device=device.with_sm_count(counts[choice_number(run.case) % len(counts)])),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each result that differs."""
        run = evidence.run
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if not evidence.paired_runs:
            return (Abstain(oracle=self.name, reason="this case was not run at another SM count"),)
        (other,) = evidence.paired_runs
        count = other.case.device.sm_count
        if reason := unfinished(other):
            return (Abstain(oracle=self.name, reason=f"with {counted(count, 'SM')}, {reason}"),)
        failures = (self._fail(run, count, disagreement) for disagreement in disagreements(run, other))
        return tuple({fail.signature: fail for fail in failures}.values()) or (Pass(oracle=self.name),)

    def _fail(self, run: Run, count: int, disagreement: Disagreement) -> Fail:
        result = disagreement.result
        kernel, place = result.writer or ("", result.name)
        return Fail(
            signature=self.signature(run, kernel=kernel, place=place),
            message=(
                f"{result.name} differs beyond rounding between {run.case.device.sm_count} and {counted(count, 'SM')}: "
                f"{disagreement.where}"
            ),
            meaning=(
                "How the work is split over the GPU changes the numbers, so a result that is right on one GPU is "
                "wrong on one with more or fewer SMs."
            ),
            extent=disagreement.extent,
        )


ORACLES = (SmInvariance(),)
