"""The promise that a row has the same bits whatever is computed with it."""

from collections.abc import Iterator

from harness.model.flaw_kind import FlawKind
from harness.model.paired_run import SecondRun, launch_of
from harness.model.row_check import PLAIN_SUMS, RowChange, RowCheck, RowDifference, RowTrial, SettingChange
from harness.model.run import Completed, Result, Run
from harness.model.verdict import Abstain, Extent, Fail, Pass, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import describe, unfinished
from harness.oracles.float64_values import FAR
from harness.oracles.memory_events import cell
from harness.oracles.traits import Causality, Need, Proof, Traits
from harness.wording import counted

NOT_RUN = "no row was computed again in other company"
NOTHING_CARRIES = "no result carries the independent rows"
ATOMICS = "atomics may add up in any order"
ON_CPU = "torch adds up terms of the library on the CPU, where the order of a sum follows the number of rows"


class RowInvariance(SingleRunOracle):
    """Compares rows of sampled cases with the same rows in other company, bit for bit.

    The engine itself runs the case again: the rows of both runs must meet in one process.
    """

    name = "row-invariance"
    promise = "A row or a sequence that an op declares independent has the same bits, whatever is computed with it."
    traits = Traits(
        rank=305,
        flaw=FlawKind.PROMISE,
        causality=Causality.RESULT,
        needs=frozenset({Need.COMPARABLE_RESULTS}),
        second_run=SecondRun.ROWS,
        not_requested=frozenset({NOT_RUN}),
        varies_with_undefined_lanes=True,
        proof=Proof.OTHER_ROWS,
        more_than_launch="it shows only between two numbers or orders of rows",
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each result that differs: an error beyond rounding, a warning where only rounding differs."""
        run = evidence.run
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        check = run.rows
        if check is None:
            return (Abstain(oracle=self.name, reason=NOT_RUN),)
        if not check.trials:
            return (Abstain(oracle=self.name, reason=check.obstacle),)
        fails = {fail.signature: fail for fail in self._fails(run, check)}
        if fails:
            return tuple(fails.values())
        if ended := [trial for trial in check.trials if not isinstance(trial.ending, Completed)]:
            reason = f"with {trial_words(check, ended[0])}, {describe(ended[0].ending)}"
            return (Abstain(oracle=self.name, reason=reason),)
        if not any(trial.compared for trial in check.trials):
            return (Abstain(oracle=self.name, reason=NOTHING_CARRIES),)
        if any(trial.differences for trial in check.trials):
            return (Abstain(oracle=self.name, reason=ATOMICS if _has_atomics(run) else ON_CPU),)
        return (Pass(oracle=self.name),)

    def _fails(self, run: Run, check: RowCheck) -> Iterator[Fail]:
        results = {result.name: result for result in run.results}
        for trial in check.trials:
            for difference in trial.differences:
                is_rounding = difference.ratio <= 1
                if difference.name in results and not (is_rounding and rounds_anyhow(run, trial, difference.name)):
                    yield self._fail(run, check, trial, difference, results[difference.name])

    def _fail(self, run: Run, check: RowCheck, trial: RowTrial, difference: RowDifference, result: Result) -> Fail:
        is_rounding = difference.ratio <= 1
        kernel, place = result.writer or ("", result.name)
        launch = launch_of(run.launches, kernel)
        return Fail(
            signature=self.signature(
                run, kernel=kernel, place=place, severity=Severity.WARNING if is_rounding else Severity.ERROR
            ),
            message=(
                f"{'only rounding differs' if is_rounding else 'values differ beyond rounding'} in "
                f"{cell(difference.name, difference.index)}: {_number(difference.value)} in the case and "
                f"{_number(difference.other)} with {trial_words(check, trial)} "
                f"({counted(difference.cells, 'element')} of {difference.compared} differ"
                f"{'' if is_rounding else f', by up to {difference.ratio:.3g} times what rounding allows'})"
                f"{_causes(run, trial, kernel)}"
            ),
            meaning=(
                "A request gets other bits depending on what is batched with it: results cannot be reproduced, and "
                "training and serving disagree."
                if is_rounding
                else "Rows that the op declares independent change each other's values: a request gets a wrong answer "
                "depending on what is batched with it."
            ),
            source=launch.source if launch else None,
            extent=None if is_rounding else Extent.LARGE if difference.ratio >= FAR else Extent.SLIGHT,
        )


ORACLES = (RowInvariance(),)


def trial_words(check: RowCheck, trial: RowTrial) -> str:
    """Return what a trial changed, as words that follow `with`: `3 of the rows of T alone (T=3)`."""
    noun = "sequence" if check.is_packed else "row"
    rows = f"{noun}s of {check.rows}"
    sizes = ", ".join(f"{name}={size}" for name, size in trial.dims.items())
    at = f" ({sizes})" if sizes else ""
    match trial.change:
        case RowChange.PART:
            return f"{counted(trial.rows, noun)} of {check.rows} alone{at}"
        case RowChange.PERMUTED:
            return f"the {rows} in another order"
        case RowChange.OTHER_VALUES:
            return f"other values in the other {rows}"
        case RowChange.PADDED:
            return f"more {rows} behind them{at}"


def rounds_anyhow(run: Run, trial: RowTrial, name: str) -> bool:
    """Return True if something else than a kernel of the library may explain other rounding of a result.

    On hardware, atomics add up in any order.  On the virtual GPU, torch's matrix products are those of the CPU; so are
    its other sums, but few of them reach a result that a kernel stores.
    """
    if run.engine_traits.needs_gpu:
        return _has_atomics(run)
    if any(operator not in PLAIN_SUMS for operator in trial.torch_sums):
        return True
    writers = {result.name: result.writer for result in run.results}
    return bool(trial.torch_sums) and not writers.get(name)


def _has_atomics(run: Run) -> bool:
    return run.engine_traits.needs_gpu and any(launch.atomics for launch in run.launches)


def _causes(run: Run, trial: RowTrial, kernel: str) -> str:
    """Return what the kernels of the two runs were launched with, if it differs, and else the config of both."""
    if trial.settings:
        return f"; {', '.join(map(_setting_words, trial.settings))}"
    launch = launch_of(run.launches, kernel)
    return f"; {kernel} ran with [{launch.config}] both times" if launch else ""


def _setting_words(change: SettingChange) -> str:
    there = f"[{change.after}] there" if change.after else "was not launched there"
    return f"{change.kernel} ran with {'config ' if change.is_config else ''}[{change.before}] in the case and {there}"


def _number(value: float) -> str:
    return f"{value:.9g}"
