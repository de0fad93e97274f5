"""The promise that no program reads what another program of the same launch stores."""

from collections.abc import Sequence

from harness.model.flaw_kind import FlawKind
from harness.model.run import OrderDependence
from harness.model.verdict import Fail, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.memory_events import at_line, cells, judge_lines, place_of, shading, was_or_were
from harness.oracles.traits import Causality, PromiseScope, Traits


class NoOrderDependence(SingleRunOracle):
    """Fails on reads of cells that another program stores, unless acquire and release order the two.

    The virtual GPU records no event for ordered reads.
    """

    name = "order-dependence"
    promise = "No program reads a cell that another program of the same launch stores or updates."
    traits = Traits(rank=170, flaw=FlawKind.RACE, causality=Causality.KERNEL, scope=PromiseScope.LAUNCH)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each line that reads."""
        run = evidence.run

        def fail(group: Sequence[OrderDependence]) -> Fail:
            first = group[0]
            reader, writer = first.programs
            does = "updates it by an atomic" if first.atomic else "stores there"
            by = f"program {reader}" if reader != writer else "another program"  # several read it: any but the writer
            return Fail(
                signature=self.signature(run, kernel=first.site.kernel, place=place_of(first.site)),
                message=(
                    f"{cells(first.site.argument, first.first_cells, first.cells)} {was_or_were(first.cells)} read by "
                    f"{by} of the launch in which program {writer} {does}{at_line(group)}"
                ),
                meaning=(
                    "Programs of a launch run in no order, so the reader sees the value from before or after the "
                    f"{'atomic' if first.atomic else 'store'}, depending on the GPU and on the day."
                ),
                source=first.site.source,
                launch_index=first.site.launch,
                argument=first.site.argument,
                pictures=shading(
                    first.site.argument, "read by a program while another stores it", first.cell_map, first.first_cells
                ),
            )

        return judge_lines(self.name, run, (event for event in run.memory if isinstance(event, OrderDependence)), fail)


ORACLES = (NoOrderDependence(),)
