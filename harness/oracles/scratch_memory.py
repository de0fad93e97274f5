"""The promise that kernels which need scratch memory get it."""

from harness.model.run import Raised, Run
from harness.model.verdict import Abstain, Fail, Pass, Severity, Signature, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import NO_LAUNCH, ResponsibleOracle, responsible_oracle, unfinished


class ScratchMemory(SingleRunOracle):
    """Fails if a kernel needs scratch memory in a thread without an allocator.

    Triton asks its allocator at launch, and the default allocator raises.
    """

    name = "scratch-memory"
    promise = "An allocator is set in every thread that launches a kernel which needs scratch memory."

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail on the default allocator's exception."""
        run = evidence.run
        if isinstance(run.ending, Raised) and responsible_oracle(run.ending) is ResponsibleOracle.SCRATCH_MEMORY:
            return (self._fail(run, run.ending),)
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if not run.launches:
            return (Abstain(oracle=self.name, reason=NO_LAUNCH),)
        return (Pass(oracle=self.name),)

    def _fail(self, run: Run, raised: Raised) -> Fail:
        kernel = raised.launch or "a kernel"
        arch = run.case.device.arch
        place = str(raised.source) if raised.source else raised.phase
        return Fail(
            signature=Signature(
                oracle=self.name, severity=Severity.ERROR, op=run.case.op, kernel=raised.launch or "", place=place
            ),
            message=f"{kernel} needs scratch memory on sm_{arch}, and in {raised.phase} no allocator is set ({place})",
            meaning=(
                "The library launches a kernel with device-made tensor descriptors without `triton.set_allocator` in "
                "that thread; older GPUs need no scratch memory for it, and a thread such as autograd's does not "
                "inherit the setting."
            ),
            source=raised.source,
        )
