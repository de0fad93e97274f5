"""The promise that every cell of every result is stored."""

from math import prod

from harness.model.flaw_kind import FlawKind
from harness.model.run import Result, Run
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import untraced
from harness.oracles.memory_events import cells, shading, was_or_were
from harness.oracles.traits import Causality, Need, Traits


class FullyWritten(SingleRunOracle):
    """Fails on outputs and gradients that the library allocated with `torch.empty` and did not fill."""

    name = "unwritten"
    promise = "Every cell of every output and gradient is stored before the library hands it back."
    traits = Traits(rank=200, flaw=FlawKind.UNINITIALISED, causality=Causality.RESULT, needs=frozenset({Need.RESULTS}))

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each result with cells that were never stored."""
        run = evidence.run
        failures = tuple(self._fail(run, result) for result in run.results if result.unwritten)
        if failures:
            return failures
        if reason := untraced(run):
            return (Abstain(oracle=self.name, reason=reason),)
        return (Pass(oracle=self.name),)

    def _fail(self, run: Run, result: Result) -> Fail:
        first = () if result.first_unwritten is None else (result.first_unwritten,)
        return Fail(
            signature=self.signature(run, kernel="", place=result.name),
            message=(
                f"{cells(result.name, first, result.unwritten)} of {prod(result.shape)} "
                f"{was_or_were(result.unwritten)} never stored"
            ),
            meaning=(
                "Those cells hold whatever the memory held before: often zeros in a test, and another tensor's values "
                "in a long-running program."
            ),
            pictures=shading(result.name, "never stored", result.unwritten_map, first),
        )


ORACLES = (FullyWritten(),)
