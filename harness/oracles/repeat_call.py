"""The promise that a call does not depend on the calls before it."""

from harness.model.ending import Completed
from harness.model.flaw_kind import FlawKind
from harness.model.later_calls import LaterCall
from harness.model.paired_run import PairedRun, SecondRun, Sketch
from harness.model.run import Result, Run
from harness.model.verdict import Abstain, Fail, Pass, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import describe, unfinished
from harness.oracles.run_comparison import Disagreement, disagreements
from harness.oracles.traits import Causality, Need, Proof, Traits

NOT_CALLED_LATER = "this case was not called a second time"


class RepeatCall(SingleRunOracle):
    """Compares a case with the same call later in the same process, bit for bit.

    Programs run in the same order on the virtual GPU, so nothing but the state that calls leave can differ.
    """

    name = "repeat-call"
    promise = "A call gives the same bits after other calls of the op: with other sizes, or one that failed."
    traits = Traits(
        rank=225,
        flaw=FlawKind.PROMISE,
        causality=Causality.RESULT,
        needs=frozenset({Need.COMPARABLE_RESULTS}),
        second_run=SecondRun.LATER,
        not_requested=frozenset({NOT_CALLED_LATER}),
        proof=Proof.COMPARED_RUNS,
        more_than_launch="it shows only in a call after other calls",
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each result with other bits, or once if the later call breaks off."""
        run, later = evidence.run, evidence.run.later
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if later is None:
            return (Abstain(oracle=self.name, reason=NOT_CALLED_LATER),)
        if not isinstance(later.ending, Completed):
            return (self._fail_ended(run, later),)
        beyond = {each.result.name: each for each in disagreements(run, _as_paired(run, later))}
        differing = (result for result in run.results if later.digests.get(result.name) != result.digest)
        return tuple(self._fail(run, later, result, beyond.get(result.name)) for result in differing) or (
            Pass(oracle=self.name),
        )

    def _fail(self, run: Run, later: LaterCall, result: Result, disagreement: Disagreement | None) -> Fail:
        kernel, place = result.writer or ("", result.name)
        severity = Severity.ERROR if disagreement else Severity.WARNING
        how = f"differs: {disagreement.where}" if disagreement else "has other bits, as rounding may"
        return Fail(
            signature=self.signature(run, kernel=kernel, place=place, severity=severity),
            message=f"{result.name} of the same call after {later.between} {how}",
            meaning=(
                "The call depends on what earlier calls left behind: a workspace or a counter that is not reset, or a "
                "value that is cached by less than what decides it."
            ),
            source=run.source_of(kernel),
            extent=disagreement.extent if disagreement else None,
        )

    def _fail_ended(self, run: Run, later: LaterCall) -> Fail:
        kernel = getattr(later.ending, "launch", None) or ""
        return Fail(
            signature=self.signature(run, kernel=kernel, place="the later call"),
            message=f"the same call after {later.between} breaks off: {describe(later.ending)}",
            meaning="The call depends on what earlier calls left behind.",
        )


ORACLES = (RepeatCall(),)


def _as_paired(run: Run, later: LaterCall) -> PairedRun:
    sketches = (
        Sketch(name=result.name, shape=result.shape, projections=later.projections[result.name])
        for result in run.results
        if len(later.projections.get(result.name, ())) == len(result.sketch)
    )
    return PairedRun(case=run.case, engine=run.engine, ending=later.ending, sketches=tuple(sketches))
