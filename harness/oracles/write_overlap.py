"""Each cell is stored by one program of a launch."""

from collections.abc import Sequence

from harness.model.run import Overlap
from harness.model.verdict import Fail, Severity, Signature, Verdict
from harness.oracles.base import Alone, Evidence
from harness.oracles.memory_events import cells, judge_lines, place_of, shading, were, where

SAME = (
    "Several programs do the same work and store the same result: harmless by itself, but it wastes bandwidth, and it "
    "turns into a race as soon as their values differ by one rounding or the kernel updates in place."
)
UNDONE = (
    "Programs of a launch run in no order, so the store comes before or after what others have added, which it wipes "
    "out: let the host zero what programs accumulate, or an earlier launch, or order the two by acquire and release."
)
DIFFERENT = "Programs of a launch run in no order, so which value remains differs from GPU to GPU and from run to run."


class WriteOverlap(Alone):
    """Atomics may meet each other, and plain stores that acquire and release order: those are no events."""

    name = "write-overlap"
    promise = "No cell that a program of a launch stores, other than atomically, is stored or updated by another."

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """One failure a line: an error if any of its programs stored different bytes, otherwise a warning."""
        run = evidence.run

        def fail(group: Sequence[Overlap]) -> Fail:
            worst = min(group, key=lambda event: (event.same_bytes, event.atomic))
            one, other = worst.programs
            how, meaning = f"stored by programs {one} and {other}, with different bytes", DIFFERENT
            if worst.same_bytes:
                how, meaning = f"stored by programs {one} and {other}, with the same bytes", SAME
            elif worst.atomic:
                how, meaning = f"stored by program {one} and updated by an atomic of program {other}", UNDONE
            return Fail(
                signature=Signature(
                    oracle=self.name,
                    severity=Severity.WARNING if worst.same_bytes else Severity.ERROR,
                    op=run.case.op,
                    kernel=worst.site.kernel,
                    place=place_of(worst.site),
                ),
                message=(
                    f"{cells(worst.site.argument, worst.first_cells, worst.cells)} {were(worst.cells)} {how}"
                    f"{where(group)}"
                ),
                meaning=meaning,
                source=worst.site.source,
                pictures=shading(
                    worst.site.argument, "stored by more than one program", worst.where, worst.first_cells
                ),
            )

        return judge_lines(self.name, run, (event for event in run.memory if isinstance(event, Overlap)), fail)
