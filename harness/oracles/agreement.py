"""The virtual GPU and a real one leave the same behind."""

from harness.model.launch_difference import Difference, Plainer
from harness.model.paired_run import launch_of
from harness.model.run import Launch, Run
from harness.model.verdict import Abstain, Fail, Pass, Severity, Signature, Verdict
from harness.oracles.base import Alone, Evidence

NOT_BOTH = "this case did not run on both GPUs"
MEANING = (
    "The compiler, the GPU or the virtual GPU computes something else than the kernel says; the kernel is hardly to "
    "blame, unless its threads race."
)
WITHOUT = {
    Plainer.UNOPTIMISED: (
        "ptxas, NVIDIA's assembler, makes wrong code of the kernel, or its threads race and other code hides it. "
        "Another release of ptxas (TRITON_PTXAS_PATH) tells which."
    ),
    Plainer.UNFUSED: (
        "A product that is fused into a sum is not rounded before. Threads that are to hold the same sum then hold "
        "others, where each fuses its own product: enable_fp_fusion=False keeps them equal."
    ),
}
"""By the build that agrees, what is wrong with the first."""


class Agrees(Alone):
    """Judges launches that were made on both, from the same bytes, whatever became of the case."""

    name = "agreement"
    promise = (
        "Each launch leaves the same integers on the virtual GPU and on a real one, and numbers as rounding allows."
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """One failure for each argument of a kernel that differs."""
        run = evidence.run
        if run.agreement is None:
            return (Abstain(oracle=self.name, reason=NOT_BOTH),)
        if not run.agreement.launches:
            reasons = {reason for _, reason in run.agreement.skipped}
            return (Abstain(oracle=self.name, reason="; ".join(sorted(reasons)) or "no kernel was launched"),)
        apart = {(found.kernel, found.argument): found for found in run.agreement.differences if not found.is_explained}
        return tuple(self._fail(run, found) for found in apart.values()) or (Pass(oracle=self.name),)

    def _fail(self, run: Run, found: Difference) -> Fail:
        launch = launch_of(run.launches, found.kernel)
        return Fail(
            signature=Signature(
                oracle=self.name,
                severity=Severity.ERROR,
                op=run.case.op,
                kernel=found.kernel,
                place=found.argument,
            ),
            message=sentence(found, run.agreement.gpu if run.agreement else "", launch),
            meaning=MEANING if found.agrees_once is None else WITHOUT[found.agrees_once],
            source=launch.source if launch else None,
        )


def sentence(found: Difference, gpu: str, launch: Launch | None) -> str:
    """`3 of 64 elements of dx are other on the NVIDIA H200, by up to 0.2 of the largest element, 40 times what …`."""
    config = f" ({launch.config})" if launch and launch.config_count > 1 else ""
    told = f"{found.differing} of {found.elements} elements of {found.argument} are other on the {gpu}{config}"
    gone = "" if found.agrees_once is None else f"; they agree once {found.agrees_once}"
    if not found.is_floating:
        return f"{told}, where integers must be equal{gone}"
    over = "" if found.doubt is None else f", {found.doubt:.3g} times what random rounding explains"
    return f"{told}, by up to {found.scaled:.2g} of the largest element{over}{gone}"
