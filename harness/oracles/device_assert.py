"""The promise that device assertions hold."""

from collections.abc import Sequence

from harness.model.flaw_kind import FlawKind
from harness.model.run import AssertFailed
from harness.model.verdict import Fail, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.memory_events import at_line, judge_lines, place_of
from harness.oracles.traits import Causality, PromiseScope, Traits

MEANING = (
    "With debugging on, the GPU ends the launch and loses the process's CUDA context. Without it the kernel goes on "
    "with values that its author ruled out."
)


class DeviceAssertsHold(SingleRunOracle):
    """Fails on assertions of kernels that are compiled for debugging."""

    name = "device-assert"
    promise = "Every assertion of a kernel holds, its checks against integer overflow included."
    traits = Traits(
        rank=150, flaw=FlawKind.PROMISE, causality=Causality.KERNEL, scope=PromiseScope.LAUNCH, ends_launches=True
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each line that asserts."""
        run = evidence.run

        def fail(group: Sequence[AssertFailed]) -> Fail:
            first = group[0]
            text = f": {first.message}" if first.message else ""
            lanes = "1 lane" if first.lanes == 1 else f"{first.lanes} lanes"
            return Fail(
                signature=self.signature(run, kernel=first.site.kernel, place=place_of(first.site)),
                message=(
                    f"an assertion failed in {lanes} of {first.site.kernel}, first in program "
                    f"{first.program}{text}{at_line(group)}"
                ),
                meaning=MEANING,
                source=first.site.source,
                launch_index=first.site.launch,
            )

        return judge_lines(self.name, run, (event for event in run.memory if isinstance(event, AssertFailed)), fail)


ORACLES = (DeviceAssertsHold(),)
