"""The promise that results are as near to their float64 reference as rounding explains.

`wrong-value` and `precision` decide what an exact run can tell.  This oracle judges the other results, by a tolerance.
"""

from math import isfinite, prod

from harness.model.flaw_kind import FlawKind
from harness.model.picture import Amount, Shading
from harness.model.run import Measure, Result, Run
from harness.model.verdict import Abstain, Extent, Fail, Pass, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import unfinished
from harness.oracles.likely_cause import MEMORY, likely_cause, reads_fresh_integers
from harness.oracles.memory_events import cell
from harness.oracles.traits import Causality, Need, Proof, Traits
from harness.wording import alike

WRONG = (
    "The result is further from the float64 truth than rounding in this precision explains: a term, a mask or an "
    "index of the computation is wrong."
)
NEAR = (
    "The result is further from the float64 truth than rounding of its definition explains, though not by much: a "
    "term, a mask or an index is wrong, or the kernel loses digits that the definition keeps.  With the same numbers "
    "in a finer type a wrong term is as large as here, and what rounding does is smaller."
)
FAR = 10.0
"""An error of at least this many tolerances is not attributed to the kernel's own rounding."""
DECIDED_EXACTLY = "`wrong-value` and `precision` decide: the case was computed in exact arithmetic"
INTEGER_KINDS = ("int", "uint", "bool")
"""The beginnings of the names of types that are compared to the bit."""
OTHER_DEFINITION = (
    "The CPU's values count.  An operator of torch that the definition uses is wrong on one of the two, or gives other "
    "results each time."
)
NOT_FINITE = "NaN or infinity spreads from here through everything that is computed later."


class Float64Values(SingleRunOracle):
    """Compares outputs and gradients with the float64 reference, over the whole tensor and over its worst tile."""

    name = "float64-values"
    promise = "Every output and gradient agrees with the float64 reference within the tolerance of its type."
    traits = Traits(
        rank=250,
        flaw=FlawKind.WRONG_VALUES,
        causality=Causality.RESULT,
        needs=frozenset({Need.RESULTS}),
        family=name,
        not_requested=frozenset({DECIDED_EXACTLY}),
        proof=Proof.TRUTH,
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each wrong result; results that share one tensor of one kernel count once."""
        run = evidence.run
        worst: dict[tuple[str, str], Result] = {}
        elsewhere = decided(run)
        wrong = [result for result in run.results if is_wrong(result)]
        for result in (candidate for candidate in wrong if candidate.name not in elsewhere):
            tensor = result.writer or ("", result.name)
            worst[tensor] = max(worst.get(tensor, result), result, key=error_in_tolerances)
        doubts = self._doubts_of_definitions(run)
        if worst or doubts:
            return (*(self._fail(run, result) for result in worst.values()), *doubts)
        if wrong:
            return (Abstain(oracle=self.name, reason=DECIDED_EXACTLY),)
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if not run.results:
            return (Abstain(oracle=self.name, reason="the op has no floating-point result to compare"),)
        elements = sum(prod(result.shape) for result in run.results)
        if elements and elements == sum(result.unjudged for result in run.results):
            return (Abstain(oracle=self.name, reason="every result leaves the range of the case's type"),)
        return (Pass(oracle=self.name),)

    def _doubts_of_definitions(self, run: Run) -> tuple[Fail, ...]:
        """Return a warning for each result whose definition the GPU computes otherwise than the CPU."""
        names = () if run.judged_on_gpu is None else run.judged_on_gpu.differing
        return tuple(
            Fail(
                signature=self.signature(run, kernel="", place=f"the definition of {name}", severity=Severity.WARNING),
                message=f"in float64, the definition of {name} gives other values on the GPU than on the CPU",
                meaning=OTHER_DEFINITION,
            )
            for name in names
        )

    def _fail(self, run: Run, result: Result) -> Fail:
        worst = worst_measure(result)
        kernel, place = result.writer or ("", result.name)
        got, expected = alike(worst.got, worst.expected)
        is_integer = result.kind.startswith(INTEGER_KINDS)
        error = "integers are equal, or wrong" if is_integer else f"{size(worst)} the tolerance"
        message = f"{cell(result.name, worst.index)} is {got} where the float64 reference gives {expected}: {error}"
        if result.nonfinite:
            is_single = result.nonfinite == 1
            message += f"; {result.nonfinite} {'cell is' if is_single else 'cells are'} NaN or infinite"
        cause = likely_cause(run, kernel, is_nan=bool(result.nonfinite))
        return Fail(
            signature=self.signature(run, kernel=kernel, place=place),
            message=f"{message}{cause.words}",
            meaning=_meaning(run, result, worst),
            source=cause.source,
            launch_index=cause.launch_index,
            pictures=pictures_of(result, worst),
            extent=extent_of(result),
        )


ORACLES = (Float64Values(),)


def _meaning(run: Run, result: Result, worst: Measure) -> str:
    if result.nonfinite:
        return NOT_FINITE
    if reads_fresh_integers(run):
        return MEMORY
    return WRONG if finite_ratio(worst) >= FAR else NEAR


def pictures_of(result: Result, worst: Measure) -> tuple[Shading, ...]:
    """Return the map of a wrong result's errors, if there is one."""
    if result.wrong_map is None:
        return ()
    return (
        Shading(
            tensor=result.name,
            caption="further from the truth than rounding explains",
            amount=Amount.TOLERANCES,
            spread=result.wrong_map,
            worst=worst.index,
        ),
    )


def worst_measure(result: Result) -> Measure:
    """Return the larger of a result's two errors."""
    return max(result.worst_tile, result.whole, key=finite_ratio)


def decided(run: Run) -> frozenset[str]:
    """Return the names of the results that `wrong-value` and `precision` decide; others are unknown or in doubt."""
    exact = run.exact
    if exact is None or exact.obstacle:
        return frozenset()
    return frozenset(
        comparison.name
        for comparison in exact.comparisons
        if comparison.is_right or (comparison.is_known and not exact.doubts)
    )


def is_wrong(result: Result) -> bool:
    """Return True if an error is above its tolerance; NaN is."""
    return bool(result.nonfinite) or not (result.whole.ratio <= 1 and result.worst_tile.ratio <= 1)


def error_in_tolerances(result: Result) -> float:
    """Return the larger of a result's two errors, in tolerances."""
    return max(finite_ratio(result.whole), finite_ratio(result.worst_tile))


def extent_of(result: Result) -> Extent:
    """Return how far a wrong result is off."""
    if result.nonfinite:
        return Extent.NOT_FINITE
    return Extent.LARGE if error_in_tolerances(result) >= FAR else Extent.SLIGHT


def finite_ratio(measure: Measure) -> float:
    """Return the error in tolerances; infinity for NaN."""
    return measure.ratio if isfinite(measure.ratio) else float("inf")


def size(measure: Measure) -> str:
    """Return the error in words: `12.4 times`, or `beyond` if it is not finite."""
    return f"{measure.ratio:.3g} times" if isfinite(measure.ratio) else "beyond"
