"""Each cell is stored by one program of a launch."""

from collections.abc import Sequence

from harness.model.run import Overlap
from harness.model.verdict import Fail, Severity, Signature, Verdict
from harness.oracles.base import Alone, Evidence
from harness.oracles.memory import cells, judge_lines, place_of, shading, were, where

SAME = (
    "Several programs do the same work and store the same result: harmless by itself, but it wastes bandwidth, and it "
    "turns into a race as soon as their values differ by one rounding or the kernel updates in place."
)
DIFFERENT = "Programs of a launch run in no order, so which value remains differs from GPU to GPU and from run to run."


class WriteOverlap(Alone):
    """Plain stores only: the machine records no atomics as overlaps."""

    name = "write-overlap"
    promise = "No cell is stored, other than atomically, by more than one program of a launch."

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """One failure a line: an error if any of its programs stored different bytes, otherwise a warning."""
        run = evidence.run

        def fail(group: Sequence[Overlap]) -> Fail:
            worst = min(group, key=lambda event: event.same_bytes)
            severity, bytes_, meaning = (
                (Severity.WARNING, "the same", SAME) if worst.same_bytes else (Severity.ERROR, "different", DIFFERENT)
            )
            one, other = worst.programs
            return Fail(
                signature=Signature(
                    oracle=self.name,
                    severity=severity,
                    op=run.case.op,
                    kernel=worst.site.kernel,
                    place=place_of(worst.site),
                ),
                message=(
                    f"{cells(worst.site.argument, worst.first_cells, worst.cells)} {were(worst.cells)} stored by "
                    f"programs {one} and {other}, with {bytes_} bytes{where(group)}"
                ),
                meaning=meaning,
                source=worst.site.source,
                pictures=shading(
                    worst.site.argument, "stored by more than one program", worst.where, worst.first_cells
                ),
            )

        return judge_lines(self.name, run, (event for event in run.memory if isinstance(event, Overlap)), fail)
