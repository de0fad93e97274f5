"""The promise that a launch leaves the same memory on the virtual GPU and on a hardware GPU."""

from harness.model.flaw_kind import FlawKind
from harness.model.launch_difference import Difference, Plainer
from harness.model.paired_run import launch_of
from harness.model.run import Launch, Run
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import NO_LAUNCH
from harness.oracles.traits import Causality, Traits

NOT_BOTH = "this case did not run on both GPUs"
MEANING = (
    "The compiler, the GPU or the virtual GPU computes something else than the kernel says; the kernel itself is an "
    "unlikely cause, unless its threads race."
)
EXPLAINED_BY = {
    Plainer.UNOPTIMISED: (
        "ptxas, NVIDIA's assembler, makes wrong code of the kernel, or its threads race and other code hides it. "
        "Try another release of ptxas (TRITON_PTXAS_PATH)."
    ),
    Plainer.UNFUSED: (
        "A product that is fused into a sum is not rounded before. Threads that are to hold the same sum then hold "
        "others, where each fuses its own product: enable_fp_fusion=False keeps them equal."
    ),
}
"""The meaning of a difference, by the build that makes it disappear."""


class GpuAgreement(SingleRunOracle):
    """Compares launches that ran on both GPUs from the same bytes, however the case ended."""

    name = "agreement"
    promise = (
        "Each launch leaves the same integers on the virtual and on a hardware GPU, and numbers as rounding allows."
    )
    traits = Traits(
        rank=260,
        flaw=FlawKind.PROMISE,
        causality=Causality.RESULT,
        not_requested=frozenset({NOT_BOTH}),
        varies_with_undefined_lanes=True,
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each kernel and argument that differs."""
        run = evidence.run
        if run.agreement is None:
            return (Abstain(oracle=self.name, reason=NOT_BOTH),)
        if not run.agreement.launches:
            return (Abstain(oracle=self.name, reason=run.agreement.why_none or NO_LAUNCH),)
        differing = {
            (difference.kernel, difference.argument): difference
            for difference in run.agreement.differences
            if not difference.is_explained
        }
        return tuple(self._fail(run, difference) for difference in differing.values()) or (Pass(oracle=self.name),)

    def _fail(self, run: Run, difference: Difference) -> Fail:
        launch = launch_of(run.launches, difference.kernel)
        return Fail(
            signature=self.signature(run, kernel=difference.kernel, place=difference.argument),
            message=sentence(difference, run.agreement.gpu if run.agreement else "", launch),
            meaning=MEANING if difference.agrees_once is None else EXPLAINED_BY[difference.agrees_once],
            source=launch.source if launch else None,
        )


ORACLES = (GpuAgreement(),)


def sentence(difference: Difference, gpu: str, launch: Launch | None) -> str:
    """Return for example `3 of 64 elements of dx differ on the NVIDIA H200, by up to 0.2 of the largest element`."""
    config = f" ({launch.config})" if launch and launch.config_count > 1 else ""
    elements = f"{difference.differing} of {difference.elements} elements of {difference.argument}"
    text = f"{elements} differ on the {gpu}{config}"
    gone = "" if difference.agrees_once is None else f"; they agree once {difference.agrees_once}"
    if not difference.is_floating:
        return f"{text}, where integers must be equal{gone}"
    over = "" if difference.doubt is None else f", {difference.doubt:.3g} times what random rounding explains"
    return f"{text}, by up to {difference.scaled:.2g} of the largest element{over}{gone}"
