"""The promise that each cell is stored by one program of a launch."""

from collections.abc import Sequence

from harness.model.flaw_kind import FlawKind
from harness.model.run import Overlap
from harness.model.verdict import Fail, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.memory_events import at_line, cells, judge_lines, place_of, shading, was_or_were
from harness.oracles.traits import Causality, PromiseScope, Traits

SAME = (
    "Several programs do the same work and store the same result: harmless by itself, but it wastes bandwidth, and it "
    "turns into a race as soon as their values differ by one rounding or the kernel updates in place."
)
PARTLY_SAME = (
    "Some programs also store into cells of others, which get the same bytes in this case: a mask or a range may be "
    "too wide. It turns into a race as soon as the values differ by one rounding or the kernel updates in place."
)
LOST_UPDATE = (
    "Programs of a launch run in no order, so the store may come after what others have added, and wipe it out. Let "
    "the host or an earlier launch zero what programs accumulate, or order the two by acquire and release."
)
DIFFERENT = "Programs of a launch run in no order, so which value remains differs from GPU to GPU and from run to run."


class NoWriteOverlap(SingleRunOracle):
    """Fails on cells that more than one program stores.

    Atomics may update one cell together, and acquire and release may order plain stores.  Neither is an event.
    """

    name = "write-overlap"
    promise = "No cell that a program of a launch stores, other than atomically, is stored or updated by another."
    traits = Traits(rank=160, flaw=FlawKind.RACE, causality=Causality.KERNEL, scope=PromiseScope.LAUNCH)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each line: with an error if programs stored different bytes, otherwise with a warning."""
        run = evidence.run

        def fail(group: Sequence[Overlap]) -> Fail:
            worst = min(group, key=lambda event: (event.same_bytes, event.atomic))
            program, other_program = worst.programs
            how, meaning = f"stored by programs {program} and {other_program}, with different bytes", DIFFERENT
            if worst.same_bytes:
                how = f"stored by programs {program} and {other_program}, with the same bytes"
                meaning = SAME if all(event.is_whole for event in group) else PARTLY_SAME
            elif worst.atomic:
                how = f"stored by program {program} and updated by an atomic of program {other_program}"
                meaning = LOST_UPDATE
            return Fail(
                signature=self.signature(
                    run,
                    kernel=worst.site.kernel,
                    place=place_of(worst.site),
                    severity=Severity.WARNING if worst.same_bytes else Severity.ERROR,
                ),
                message=(
                    f"{cells(worst.site.argument, worst.first_cells, worst.cells)} {was_or_were(worst.cells)} {how}"
                    f"{at_line(group)}"
                ),
                meaning=meaning,
                source=worst.site.source,
                launch_index=worst.site.launch,
                argument=worst.site.argument,
                pictures=shading(
                    worst.site.argument, "stored by more than one program", worst.cell_map, worst.first_cells
                ),
            )

        return judge_lines(self.name, run, (event for event in run.memory if isinstance(event, Overlap)), fail)


ORACLES = (NoWriteOverlap(),)
