"""The promise that device assertions and assumptions hold."""

from collections.abc import Sequence

from harness.model.flaw_kind import FlawKind
from harness.model.run import AssertFailed
from harness.model.verdict import Fail, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.memory_events import at_line, judge_lines, place_of
from harness.oracles.traits import Causality, PromiseScope, Traits

ASSERTION = (
    "With debugging on, the GPU ends the launch and loses the process's CUDA context. Without it the kernel goes on "
    "with values that its author ruled out."
)
ASSUMPTION = (
    "The compiler may drop whatever runs only where the assumption is false, and compute with the values that it "
    "implies: what the kernel does then is undefined, and may change with each release of the compiler."
)


class DeviceAssertsHold(SingleRunOracle):
    """Fails on assertions of kernels that are compiled for debugging, and on `tl.assume` of all kernels.

    A false assumption is a warning: the compiler may drop code because of it, and seldom does.
    """

    name = "device-assert"
    promise = "Every assertion and assumption of a kernel holds, its checks against integer overflow included."
    traits = Traits(
        rank=150, flaw=FlawKind.PROMISE, causality=Causality.KERNEL, scope=PromiseScope.LAUNCH, ends_launches=True
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each line that asserts."""
        run = evidence.run

        def fail(group: Sequence[AssertFailed]) -> Fail:
            first = min(group, key=lambda event: event.is_assumption)
            what = "assumption" if first.is_assumption else "assertion"
            text = f": {first.message}" if first.message else ""
            lanes = "1 lane" if first.lanes == 1 else f"{first.lanes} lanes"
            return Fail(
                signature=self.signature(
                    run,
                    kernel=first.site.kernel,
                    place=place_of(first.site),
                    severity=Severity.WARNING if first.is_assumption else Severity.ERROR,
                ),
                message=(
                    f"an {what} failed in {lanes} of {first.site.kernel}, first in program "
                    f"{first.program}{text}{at_line(group)}"
                ),
                meaning=ASSUMPTION if first.is_assumption else ASSERTION,
                source=first.site.source,
                launch_index=first.site.launch,
            )

        return judge_lines(self.name, run, (event for event in run.memory if isinstance(event, AssertFailed)), fail)


ORACLES = (DeviceAssertsHold(),)
