"""The promise that results do not depend on the order in which programs begin."""

from dataclasses import replace

from harness.execution.paired_run_policy import order_matters
from harness.model.case import Case, ProgramOrder
from harness.model.flaw_kind import FlawKind
from harness.model.paired_run import SecondRun
from harness.model.run import Deadlocked, Run
from harness.model.verdict import Abstain, Fail, Pass, Severity, Verdict
from harness.oracles.base import Evidence, NamedOracle
from harness.oracles.deadlock_messages import sentence
from harness.oracles.endings import unfinished, untraced
from harness.oracles.run_comparison import Disagreement, disagreements
from harness.oracles.traits import Causality, Need, Proof, Traits

ORDER = ProgramOrder.REVERSED
"""The order of the paired run."""


class OrderInvariance(NamedOracle):
    """Compares a case with the same case in reversed order, by random projections of the results.

    Bits may differ: float atomics add up in another order then, which rounding explains.
    """

    name = "order-invariance"
    promise = "The results are the same, up to rounding, in whatever order the programs of a launch begin."
    traits = Traits(
        rank=280,
        flaw=FlawKind.RACE,
        causality=Causality.RESULT,
        needs=frozenset({Need.COMPARABLE_RESULTS}),
        second_run=SecondRun.ORDER,
        proof=Proof.COMPARED_RUNS,
        more_than_launch="it shows only between two orders of programs, beyond what rounding of the whole op explains",
    )

    def paired_runs(self, run: Run) -> tuple[Case, ...]:
        """Request the same case with the programs of each launch in reversed order, if the order can matter."""
        if untraced(run) or run.case.order is ORDER or not order_matters(run.launches, run.memory):
            return ()
        return (replace(run.case, order=ORDER),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each result that differs, or once if the reversed order deadlocks."""
        run = evidence.run
        if reason := untraced(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if not order_matters(run.launches, run.memory):
            return (Pass(oracle=self.name),)
        if run.case.order is ORDER:
            return (Abstain(oracle=self.name, reason="this case is itself the one in reversed order"),)
        if not evidence.paired_runs:
            return (Abstain(oracle=self.name, reason="this case was not run in reversed order"),)
        (other,) = evidence.paired_runs
        if isinstance(other.ending, Deadlocked):
            return (self._fail_deadlocked(run, other.ending),)
        if reason := unfinished(other):
            return (Abstain(oracle=self.name, reason=f"in reversed order, {reason}"),)
        failures = (self._fail(run, disagreement) for disagreement in disagreements(run, other))
        return tuple({fail.signature: fail for fail in failures}.values()) or (Pass(oracle=self.name),)

    def _fail(self, run: Run, disagreement: Disagreement) -> Fail:
        result = disagreement.result
        kernel, place = result.writer or ("", result.name)
        return Fail(
            signature=self.signature(run, kernel=kernel, place=place),
            message=(
                f"{result.name} differs beyond rounding when the programs of each launch begin in {ORDER} order: "
                f"{disagreement.where}"
            ),
            meaning=("A GPU promises no order of programs, so the same call gives different results from run to run."),
            source=run.source_of(kernel),
            extent=disagreement.extent,
        )

    def _fail_deadlocked(self, run: Run, deadlocked: Deadlocked) -> Fail:
        source = deadlocked.waits[0].source if deadlocked.waits else None
        return Fail(
            signature=self.signature(
                run,
                kernel=deadlocked.kernel,
                place=f"deadlock ({source})" if source else "deadlock",
                severity=Severity.WARNING,
            ),
            message=f"when programs begin in {ORDER} order, {sentence(deadlocked)}",
            meaning=(
                "The kernel relies on programs beginning by ascending id, which GPUs usually do and CUDA does not "
                "promise: a ticket from an atomic would make it safe."
            ),
            source=source,
        )


ORACLES = (OrderInvariance(),)
