"""The result does not depend on which autotune config wins."""

from dataclasses import replace

from harness.model.case import Case
from harness.model.companion import is_sampled
from harness.model.run import Launch, Result, Run
from harness.model.verdict import Abstain, Fail, Pass, Severity, Signature, Verdict
from harness.oracles.base import Evidence
from harness.oracles.endings import unfinished
from harness.oracles.sketches import disagreements, draw


class ConfigInvariance:
    """Compares some of the cases with the same case and another config of one of its autotuned kernels."""

    name = "config-invariance"
    promise = "The results are the same, up to rounding, whichever autotune config a kernel runs with."

    def companions(self, run: Run) -> tuple[Case, ...]:
        """The same case with one kernel on another config, for one case in `ONE_CASE_IN`."""
        choice = other_config(run)
        if unfinished(run) or not is_sampled(run.case) or choice is None:
            return ()
        kernel, index = choice
        return (replace(run.case, configs={**run.case.configs, kernel: index}),)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """One failure for each result that differs, in the name of the kernel whose config was changed."""
        run = evidence.run
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        choice = other_config(run)
        if choice is None:
            return (Abstain(oracle=self.name, reason="no kernel of this case is autotuned"),)
        if not evidence.companions:
            return (Abstain(oracle=self.name, reason="this case was not run with another config"),)
        (other,) = evidence.companions
        kernel, _ = choice
        if reason := unfinished(other):
            return (Abstain(oracle=self.name, reason=f"with config {config_of(other, kernel)} of {kernel}, {reason}"),)
        first, second = launch_of(run, kernel), launch_of(other, kernel)
        if first and second and first.config_index == second.config_index:
            reason = f"{kernel} ran with config {config_of(run, kernel)} again, since the GPU refuses another"
            return (Abstain(oracle=self.name, reason=reason),)
        failures = (self._fail(run, other, kernel, result, block) for result, block in disagreements(run, other))
        return tuple({fail.signature: fail for fail in failures}.values()) or (Pass(oracle=self.name),)

    def _fail(self, run: Run, other: Run, kernel: str, result: Result, block: int) -> Fail:
        place = result.writer[1] if result.writer else result.name
        launch = launch_of(run, kernel)
        return Fail(
            signature=Signature(oracle=self.name, severity=Severity.ERROR, op=run.case.op, kernel=kernel, place=place),
            message=(
                f"{result.name} differs beyond rounding between configs {config_of(run, kernel)} and "
                f"{config_of(other, kernel)} of {kernel}, first in block {block} of its projections"
            ),
            meaning=(
                "Which config the autotuner picks depends on timing, so the same program gives right results on one "
                "GPU or day and wrong ones on another."
            ),
            source=launch.source if launch else None,
        )


def other_config(run: Run) -> tuple[str, int] | None:
    """An autotuned kernel and the index of a config that it did not run with; None where no kernel is autotuned.

    The index is chosen by the seed, not relative to the one that ran: shrinking towards config 0 keeps the comparison.
    """
    tuned = {launch.kernel: launch for launch in run.launches if launch.config_count > 1}
    if not tuned:
        return None
    launch = tuned[sorted(tuned)[draw(run) % len(tuned)]]
    index = draw(run) % launch.config_count
    if index == launch.config_index:
        index = (index + 1) % launch.config_count
    return launch.kernel, index


def launch_of(run: Run, kernel: str) -> Launch | None:
    """The kernel's first launch; None where it was not launched."""
    return next((launch for launch in run.launches if launch.kernel == kernel), None)


def config_of(run: Run, kernel: str) -> str:
    """The config that the kernel ran with, in brackets: `[BT: 64, num_warps: 4]`."""
    launch = launch_of(run, kernel)
    return f"[{launch.config}]" if launch else f"number {run.case.configs.get(kernel, 0)}"
