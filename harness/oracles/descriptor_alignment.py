"""The promise that tensor descriptors get aligned addresses."""

from collections.abc import Sequence

from harness.model.flaw_kind import FlawKind
from harness.model.run import DESCRIPTOR_BYTES, Misaligned, Unaligned
from harness.model.verdict import Fail, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.memory_events import at_line, judge_lines, place_of
from harness.oracles.traits import Causality, PromiseScope, Traits

MEANING = (
    "Since compute capability 9.0 a hardware unit (TMA) moves blocks through descriptors, and it knows multiples of 16 "
    "bytes only. A tensor or a block that begins elsewhere ends the launch and the process's CUDA context. Of rows "
    "that begin elsewhere, other cells are read and written. On older GPUs Triton makes plain loads and stores of "
    "it, which work."
)


IDIOMS = {
    Unaligned.TENSOR: "descriptor of an unaligned tensor",
    Unaligned.ROW: "descriptor of unaligned rows",
    Unaligned.BLOCK: "unaligned block of a descriptor",
}
"""The idiom of each kind: the host code makes a descriptor of a tensor that TMA cannot read, instead of a copy."""


class DescriptorAlignment(SingleRunOracle):
    """Fails on descriptors of unaligned tensors, rows or blocks, from compute capability 9.0 on.

    On older GPUs descriptors are plain pointers.
    """

    name = "descriptor-alignment"
    promise = "The tensor behind a descriptor, its rows, and every block through it begin at a multiple of 16 bytes."
    traits = Traits(
        rank=140, flaw=FlawKind.PROMISE, causality=Causality.KERNEL, scope=PromiseScope.LAUNCH, ends_launches=True
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each line that makes or uses such a descriptor."""
        run = evidence.run

        def fail(group: Sequence[Misaligned]) -> Fail:
            first = group[0]
            return Fail(
                signature=self.signature(run, kernel=first.site.kernel, place=place_of(first.site)),
                message=f"{sentence(first)}{at_line(group)}",
                meaning=MEANING,
                source=first.site.source,
                launch_index=first.site.launch,
                argument=first.site.argument,
                idiom=IDIOMS[first.what],
            )

        return judge_lines(self.name, run, (event for event in run.memory if isinstance(event, Misaligned)), fail)


ORACLES = (DescriptorAlignment(),)


def sentence(event: Misaligned) -> str:
    """Return for example `program 0 moves a block of x that begins 8 bytes beyond a multiple of 16`."""
    unit = "byte" if event.off_by == 1 else "bytes"
    of = f"{event.off_by} {unit} beyond a multiple of {DESCRIPTOR_BYTES}"
    match event.what:
        case Unaligned.TENSOR:
            return f"program {event.program} makes a descriptor of {event.site.argument}, which begins {of}"
        case Unaligned.ROW:
            return f"program {event.program} makes a descriptor of {event.site.argument}, whose second row begins {of}"
        case Unaligned.BLOCK:
            return f"program {event.program} moves a block of {event.site.argument} that begins {of}"
