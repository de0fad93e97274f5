"""What a kernel asserts holds."""

from collections.abc import Sequence

from harness.model.run import AssertFailed
from harness.model.verdict import Fail, Severity, Signature, Verdict
from harness.oracles.base import Alone, Evidence
from harness.oracles.memory_events import judge_lines, place_of, where


class DeviceAsserts(Alone):
    """Assertions in kernels that are compiled for debugging; others hold none."""

    name = "device-assert"
    promise = "Every assertion that a kernel makes on the device holds, its checks against integer overflow included."

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """One failure for each line that asserts."""
        run = evidence.run

        def fail(group: Sequence[AssertFailed]) -> Fail:
            first = group[0]
            said = f": {first.message}" if first.message else ""
            lanes = "1 lane" if first.lanes == 1 else f"{first.lanes} lanes"
            return Fail(
                signature=Signature(
                    oracle=self.name,
                    severity=Severity.ERROR,
                    op=run.case.op,
                    kernel=first.site.kernel,
                    place=place_of(first.site),
                ),
                message=(
                    f"an assertion failed in {lanes} of {first.site.kernel}, first in program "
                    f"{first.program}{said}{where(group)}"
                ),
                meaning=(
                    "With debugging on, the GPU ends the launch and loses the process's CUDA context; without it the "
                    "kernel goes on with what its author ruled out."
                ),
                source=first.site.source,
            )

        return judge_lines(self.name, run, (event for event in run.memory if isinstance(event, AssertFailed)), fail)
