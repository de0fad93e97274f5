"""The promise that results do not depend on which autotune config wins."""

from harness.execution.paired_run_policy import is_sampled, with_another_config
from harness.model.case import Case
from harness.model.flaw_kind import FlawKind
from harness.model.paired_run import SecondRun, launch_of
from harness.model.run import Run
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.base import Evidence, NamedOracle
from harness.oracles.endings import unfinished
from harness.oracles.float64_values import is_wrong
from harness.oracles.run_comparison import Disagreement, disagreements
from harness.oracles.traits import Causality, Need, Proof, Traits


class ConfigInvariance(NamedOracle):
    """Compares sampled cases with the same case and another config of one of its autotuned kernels."""

    name = "config-invariance"
    promise = "The results are the same, up to rounding, whichever autotune config a kernel runs with."
    traits = Traits(
        rank=300,
        flaw=FlawKind.PROMISE,
        causality=Causality.RESULT,
        needs=frozenset({Need.COMPARABLE_RESULTS}),
        second_run=SecondRun.CONFIG,
        proof=Proof.COMPARED_RUNS,
        more_than_launch="it shows only between two autotune configs",
    )

    def paired_runs(self, run: Run) -> tuple[Case, ...]:
        """Request the same case with another config of one kernel, for one case in `ONE_CASE_IN`."""
        changed = with_another_config(run.case, run.launches)
        # If the GPU refused the config that the case asked for, "another" config may be that one: the same case.
        if unfinished(run) or not is_sampled(run.case) or changed is None or changed[1] == run.case:
            return ()
        return (changed[1],)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each result that differs; the kernel at fault is the one whose config was changed."""
        run = evidence.run
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        changed = with_another_config(run.case, run.launches)
        if changed is None:
            return (Abstain(oracle=self.name, reason="no kernel of this case is autotuned"),)
        if not evidence.paired_runs:
            return (Abstain(oracle=self.name, reason="this case was not run with another config"),)
        (other,) = evidence.paired_runs
        kernel, _ = changed
        if reason := unfinished(other):
            return (Abstain(oracle=self.name, reason=f"with config {config_of(other, kernel)} of {kernel}, {reason}"),)
        first, second = launch_of(run.launches, kernel), launch_of(other.launches, kernel)
        if first and second and first.config_index == second.config_index:
            reason = f"{kernel} ran with config {config_of(run, kernel)} again, since the GPU refuses another"
            return (Abstain(oracle=self.name, reason=reason),)
        failures = (self._fail(run, other, kernel, disagreement) for disagreement in disagreements(run, other))
        return tuple({fail.signature: fail for fail in failures}.values()) or (Pass(oracle=self.name),)

    def _fail(self, run: Run, other: Run, kernel: str, disagreement: Disagreement) -> Fail:
        result = disagreement.result
        place = result.writer[1] if result.writer else result.name
        launch = launch_of(run.launches, kernel)
        return Fail(
            signature=self.signature(run, kernel=kernel, place=place),
            message=(
                f"{result.name} differs beyond rounding between configs {config_of(run, kernel)} and "
                f"{config_of(other, kernel)} of {kernel}{_wrong_one(run, other, kernel, result.name)}: "
                f"{disagreement.where}"
            ),
            meaning=(
                "Which config the autotuner picks depends on timing, so the same program gives right results on one "
                "GPU or day and wrong ones on another."
            ),
            source=launch.source if launch else None,
            extent=disagreement.extent,
        )


ORACLES = (ConfigInvariance(),)


def _wrong_one(run: Run, other: Run, kernel: str, name: str) -> str:
    """Return which of the two configs has the wrong result, as far as both runs were compared with the definition."""
    compared = [(each_run, result) for each_run in (run, other) for result in each_run.results if result.name == name]
    wrong = [config_of(each_run, kernel) for each_run, result in compared if is_wrong(result)]
    return f", of which {wrong[0]} is wrong" if len(compared) == 2 and len(wrong) == 1 else ""


def config_of(run: Run, kernel: str) -> str:
    """Return the config that the kernel ran with, in brackets: `[BT: 64, num_warps: 4]`."""
    launch = launch_of(run.launches, kernel)
    return f"[{launch.config}]" if launch else f"number {run.case.configs.get(kernel, 0)}"
