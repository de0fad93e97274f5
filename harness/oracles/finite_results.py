"""The promise that an op without a definition returns no NaN for finite inputs.

A definition tells which NaN is right.  Without one, as in a draft, `float64-values` has nothing to compare with.
"""

from math import prod

from harness.model.flaw_kind import FlawKind
from harness.model.run import NanResult, Run
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import unfinished
from harness.oracles.likely_cause import likely_cause
from harness.oracles.memory_events import cells
from harness.oracles.traits import Causality, Traits

DEFINED = "the op has a definition, which tells where NaN is right"
MEANING = (
    "Every input is finite, and what the op returns is no number: a division by zero, a root of a rounding error, an "
    "overflow, or memory that nothing has stored.  If NaN is right here, write the definition, which says so."
)


class FiniteResults(SingleRunOracle):
    """Fails on NaN in outputs and gradients of an op without a definition."""

    name = "finite-results"
    promise = "An op without a definition returns no NaN for finite inputs."
    traits = Traits(
        rank=255,
        flaw=FlawKind.WRONG_VALUES,
        causality=Causality.RESULT,
        not_requested=frozenset({DEFINED}),
        more_than_launch="a launch alone does not show whether the op returns the NaN",
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each result that holds NaN; results that share one tensor of one kernel count once."""
        run = evidence.run
        by_tensor = {result.writer or ("", result.name): result for result in reversed(run.nans)}
        if by_tensor:
            return tuple(self._fail(run, *tensor, result) for tensor, result in reversed(by_tensor.items()))
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        return (Pass(oracle=self.name) if run.is_undefined else Abstain(oracle=self.name, reason=DEFINED),)

    def _fail(self, run: Run, kernel: str, place: str, result: NanResult) -> Fail:
        are = "is" if result.cells == 1 else "are"
        cause = likely_cause(run, kernel, is_nan=True)
        unwritten = f"; {result.unwritten} of them were never stored" if result.unwritten else ""
        return Fail(
            signature=self.signature(run, kernel=kernel, place=place),
            message=(
                f"{cells(result.name, (result.first,), result.cells)} of {prod(result.shape)} {are} NaN, and every "
                f"input is finite{unwritten}{cause.words}"
            ),
            meaning=MEANING,
            source=cause.source,
            launch_index=cause.launch_index,
        )


ORACLES = (FiniteResults(),)
