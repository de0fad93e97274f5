"""The promises that exact arithmetic can tell apart: the algorithm is right, and rounding leaves it its digits.

Both judge the exact run of a case.  `float64-values` judges by a tolerance what no exact run decides.
"""

from math import inf, isfinite, log10

from harness.model.case import ILL_CONDITIONED
from harness.model.flaw_kind import FlawKind
from harness.model.product_precision import product_epsilon
from harness.model.run import ExactComparison, ExactRun, LaunchRounding, Result, Run
from harness.model.verdict import Abstain, Fail, Pass, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.float64_values import Float64Values, extent_of, is_wrong, pictures_of, worst_measure
from harness.oracles.likely_cause import MEMORY, likely_cause, reads_fresh_integers
from harness.oracles.memory_events import cell
from harness.oracles.traits import Causality, Need, Proof, Traits
from harness.wording import alike

NO_EXACT_RUN = "the case was not computed in exact arithmetic"
ALGORITHM = "The algorithm is wrong, not its rounding: a term, a mask or an index of the computation."
NO_DIGITS = 0.5
"""Digits below which nothing is left of a number."""
SOME_DIGITS = 1.0
LEAST_LOSS = 0.3
"""Digits that another order of the same operations may cost: a factor of two in the error."""
A_NARROWER_TYPE = 3.0
"""Digits by which float32 exceeds a 16-bit type, or more: a loss that shows a kernel computing in a narrower type."""
DIGITS = {"float64": 15.9, "float32": 7.2, "float16": 3.3, "bfloat16": 2.4}
"""The decimal digits of a type."""
UNITS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
LARGEST = {
    "float64": 2.0**1023 * (2 - 2.0**-52),
    "float32": 2.0**127 * (2 - 2.0**-23),
    "bfloat16": 2.0**127 * (2 - 2.0**-7),
    "float16": 65504.0,
    "float8_e5m2": 57344.0,
    "float8_e4m3fn": 448.0,
    "float8_e5m2fnuz": 57344.0,
    "float8_e4m3fnuz": 240.0,
}
"""The largest number of a type."""
NEGLIGIBLE = 2.0**-24
"""A tensor smaller than this, relative to the terms that it is a sum of, is below the last digit of float32."""
OWN_UNITS, FLOAT32_UNITS = 2.0, 64.0
"""Units that a result of zero may be off, relative to its terms: of its type or of TF32, and of float32."""


class WrongValue(SingleRunOracle):
    """Compares exact values with the float64 reference: no rounding hides a wrong term, and none looks like one."""

    name = "wrong-value"
    promise = "Computed without rounding, every output and gradient equals the float64 reference."
    traits = Traits(
        rank=230,
        flaw=FlawKind.WRONG_VALUES,
        causality=Causality.RESULT,
        needs=frozenset({Need.RESULTS, Need.EXACT_RUN}),
        family=Float64Values.name,
        is_same_bug_as_family=True,
        not_requested=frozenset({NO_EXACT_RUN}),
        proof=Proof.TRUTH,
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each wrong result; results that share one tensor of one kernel count once."""
        run = evidence.run
        exact = run.exact
        if exact is None or exact.obstacle:
            return (Abstain(oracle=self.name, reason=exact.obstacle if exact else NO_EXACT_RUN),)
        wrong = [comparison for comparison in exact.comparisons if comparison.is_known and not comparison.is_right]
        if wrong and exact.doubts:
            return (Abstain(oracle=self.name, reason=f"the exact run is in doubt: {exact.doubts[0]}"),)
        if not wrong:
            if all(comparison.is_known for comparison in exact.comparisons):
                return (Pass(oracle=self.name),)
            return (Abstain(oracle=self.name, reason=f"the exact run is incomplete: {_first(exact.doubts)}"),)
        results = {result.name: result for result in run.results}
        worst: dict[tuple[str, str], ExactComparison] = {}
        for comparison in wrong:
            tensor = _tensor(results.get(comparison.name), comparison.name)
            worst[tensor] = max(worst.get(tensor, comparison), comparison, key=lambda each: each.worst.ratio)
        return tuple(self._fail(run, comparison, results.get(comparison.name)) for comparison in worst.values())

    def _fail(self, run: Run, comparison: ExactComparison, result: Result | None) -> Fail:
        kernel, place = _tensor(result, comparison.name)
        at = cell(comparison.name, comparison.worst.index)
        times = f"{comparison.worst.ratio:.3g} times" if isfinite(comparison.worst.ratio) else "beyond"
        cause = likely_cause(run, kernel, is_nan=not isfinite(comparison.worst.got))
        got, expected = alike(comparison.worst.got, comparison.worst.expected, 9)
        kind = result.kind if result is not None else ""
        overflow = f"overflows {kind}: it " if _is_beyond(comparison.worst.got, kind) else ""
        return Fail(
            signature=self.signature(run, kernel=kernel, place=place),
            message=(
                f"{at} {overflow}is {got} without any rounding, where the float64 reference gives {expected}: "
                f"{times} the bound of exact arithmetic{cause.words}"
            ),
            meaning=MEMORY if cause.words or reads_fresh_integers(run) else ALGORITHM,
            source=cause.source,
            launch_index=cause.launch_index,
            pictures=pictures_of(result, worst_measure(result)) if result is not None else (),
            extent=extent_of(result) if result is not None else None,
        )


class Precision(SingleRunOracle):
    """Counts the digits that rounding costs a right algorithm, beside those that it costs eager torch."""

    name = "precision"
    promise = "A right algorithm loses no more digits by rounding than eager torch does in the same type."
    traits = Traits(
        rank=240,
        flaw=FlawKind.WRONG_VALUES,
        causality=Causality.RESULT,
        needs=frozenset({Need.RESULTS}),
        family=Float64Values.name,
        not_requested=frozenset({NO_EXACT_RUN}),
        proof=Proof.TRUTH,
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each kernel and tensor, with the operation at which real and exact values part most."""
        run = evidence.run
        exact = run.exact
        if exact is None or exact.obstacle:
            return (Abstain(oracle=self.name, reason=exact.obstacle if exact else NO_EXACT_RUN),)
        if run.case.values in ILL_CONDITIONED:
            return (
                Abstain(oracle=self.name, reason=f"digits of {run.case.values} values depend on the order of terms"),
            )
        right = {comparison.name: comparison for comparison in exact.comparisons if comparison.is_right}
        fails: dict[tuple[str, str], Fail] = {}
        for result in filter(is_wrong, run.results):
            comparison = right.get(result.name)
            if comparison is None or not _is_lossy(result, comparison):
                continue
            if not _is_benign_zero(run, result, comparison, exact):
                fail = self._fail(run, result, comparison)
                tensor = (fail.signature.kernel, fail.signature.place)
                if tensor not in fails or fail.signature.severity is Severity.ERROR:
                    fails[tensor] = fail
        if fails:
            return tuple(fails.values())
        if len(right) < len(exact.comparisons):
            return (Abstain(oracle=self.name, reason="not every exact value is known to be right"),)
        return (Pass(oracle=self.name),)

    def _fail(self, run: Run, result: Result, comparison: ExactComparison) -> Fail:
        assert run.exact is not None
        kernel, place = _tensor(result, comparison.name)
        growth = _most_growth(run, run.exact, kernel)
        left, usual = digits_left(comparison.error, result.kind), digits_left(comparison.usual_error, result.kind)
        is_large = (left < NO_DIGITS and usual >= SOME_DIGITS) or usual - left >= A_NARROWER_TYPE
        is_error = is_large and comparison.absolute_error > _left_of_terms(run, result, run.exact)
        where = ""
        if growth is not None:
            at = f" ({growth.source})" if growth.source else ""
            where = f"; real and exact values part most at {growth.operation} of {growth.kernel}{at}"
        worst = worst_measure(result)
        got, expected = alike(worst.got, worst.expected)
        return Fail(
            signature=self.signature(
                run, kernel=kernel, place=place, severity=Severity.ERROR if is_error else Severity.WARNING
            ),
            message=(
                f"{cell(result.name, worst.index)} is {got} where {expected} is right: "
                f"{_digits(left)} left of {_digits(usual)} in eager torch{where}"
            ),
            meaning=(
                "The algorithm is right: without rounding it gives the reference's values.  Rounding costs more digits "
                "here than eager torch loses in the same type."
            ),
            source=growth.source if growth is not None else None,
            launch_index=growth.launch if growth is not None else None,
            pictures=pictures_of(result, worst),
            extent=extent_of(result),
        )


ORACLES = (WrongValue(), Precision())


def _most_growth(run: Run, exact: ExactRun, kernel: str) -> LaunchRounding | None:
    """Return where the error grew most, up to the last launch of the kernel that stored the result."""
    last = _last_launch(run, kernel)
    before = [rounding for rounding in exact.roundings if rounding.launch <= last and rounding.operation]
    return max(before, key=lambda rounding: rounding.growth, default=None)


def _last_launch(run: Run, kernel: str) -> int:
    """Return the index of the kernel's last launch; of the last of all if none is known to be its."""
    launches = [index for index, launch in enumerate(run.launches) if launch.kernel == kernel]
    return launches[-1] if launches else len(run.launches)


def digits_left(error: float, kind: str) -> float:
    """Return how many decimal digits a relative error leaves of a number of this type."""
    most = DIGITS.get(kind, DIGITS["float32"])
    if not error > 0:
        return most
    return min(most, max(0.0, -log10(error))) if isfinite(error) else 0.0


def _is_beyond(value: float, kind: str) -> bool:
    """Return True if a finite number is larger than all of its type."""
    return isfinite(value) and abs(value) > LARGEST.get(kind, inf)


def _is_lossy(result: Result, comparison: ExactComparison) -> bool:
    """Return True if the result loses more digits than another order of eager torch's operations might."""
    return digits_left(comparison.usual_error, result.kind) - digits_left(comparison.error, result.kind) > LEAST_LOSS


def _is_benign_zero(run: Run, result: Result, comparison: ExactComparison, exact: ExactRun) -> bool:
    """Return True if the right result is zero, and the wrong one is what rounding leaves of the terms that cancel."""
    is_zero = comparison.size <= NEGLIGIBLE * _cancelled(run, result, exact)
    return is_zero and comparison.absolute_error <= _left_of_terms(run, result, exact)


def _left_of_terms(run: Run, result: Result, exact: ExactRun) -> float:
    """Return what rounding may leave of the terms that cancel, in the launches up to the one that stored the result."""
    launches = run.launches[: _last_launch(run, _tensor(result, result.name)[0]) + 1]
    products = product_epsilon(precision for launch in launches for precision in launch.dot_precisions)
    own = max(UNITS.get(result.kind, UNITS["float32"]), products)
    return (OWN_UNITS * own + FLOAT32_UNITS * UNITS["float32"]) * _cancelled(run, result, exact)


def _cancelled(run: Run, result: Result, exact: ExactRun) -> float:
    last = _last_launch(run, _tensor(result, result.name)[0])
    return max((rounding.cancelled for rounding in exact.roundings if rounding.launch <= last), default=0.0)


def _tensor(result: Result | None, name: str) -> tuple[str, str]:
    """Return the kernel and argument that stored a result; its name if none did."""
    return (result.writer if result is not None else None) or ("", name)


def _digits(count: float) -> str:
    return "no digit" if count < NO_DIGITS else f"{count:.1f} digits"


def _first(doubts: tuple[str, ...]) -> str:
    return doubts[0] if doubts else "an exact value is unknown"
