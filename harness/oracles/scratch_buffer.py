"""The promises about the memory that an allocator returns for a kernel's scratch: large enough, aligned, and free."""

from collections.abc import Sequence

from harness.model.flaw_kind import FlawKind
from harness.model.run import Run, ScratchFault, ScratchFlaw
from harness.model.verdict import Abstain, Fail, Pass, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import NO_LAUNCH, unfinished
from harness.oracles.memory_events import at_line, place_of
from harness.oracles.traits import Causality, PromiseScope, Traits

NO_SCRATCH = "no kernel needs scratch memory"
SEEN_BY_TRACING = frozenset({ScratchFlaw.READ, ScratchFlaw.STORED})
"""Flaws that only an engine sees that follows every access."""


class ScratchBuffer(SingleRunOracle):
    """Fails on some flaws of scratch memory, once for each kernel and operation."""

    def __init__(self, rank: int, name: str, promise: str, flaws: frozenset[ScratchFlaw], meaning: str) -> None:
        self.name = name
        self.promise = promise
        self.traits = Traits(
            rank=rank,
            flaw=FlawKind.PROMISE,
            causality=Causality.KERNEL,
            scope=PromiseScope.LAUNCH,
            not_requested=frozenset({NO_SCRATCH}),
        )
        self._flaws = flaws
        self._meaning = meaning

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail for each line that needs, or uses, such memory."""
        run = evidence.run
        lines: dict[tuple[str, str], list[ScratchFault]] = {}
        for event in run.memory:
            if isinstance(event, ScratchFault) and event.what in self._flaws:
                lines.setdefault((event.site.kernel, place_of(event.site)), []).append(event)
        if lines:
            return tuple(self._fail(run, group) for group in lines.values())
        if reason := unfinished(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if not run.launches:
            return (Abstain(oracle=self.name, reason=NO_LAUNCH),)
        if not any(launch.scratch_bytes for launch in run.launches):
            return (Abstain(oracle=self.name, reason=NO_SCRATCH),)
        if self._flaws <= SEEN_BY_TRACING and not run.engine_traits.has_provenance:
            return (Abstain(oracle=self.name, reason=f"the {run.engine} engine does not see memory accesses"),)
        return (Pass(oracle=self.name),)

    def _fail(self, run: Run, group: Sequence[ScratchFault]) -> Fail:
        first = group[0]
        return Fail(
            signature=self.signature(run, kernel=first.site.kernel, place=place_of(first.site)),
            message=f"{sentence(first)}{at_line(group)}",
            meaning=self._meaning,
            source=first.site.source,
            launch_index=first.site.launch,
        )


def sentence(fault: ScratchFault) -> str:
    """Return what was seen, as a sentence."""
    kernel, needed = fault.site.kernel, f"{fault.needed_bytes:,}"
    match fault.what:
        case ScratchFlaw.MISSING:
            return f"{kernel} needs {needed} bytes of scratch memory, and no allocator is set"
        case ScratchFlaw.TOO_SMALL:
            return (
                f"{kernel} needs {needed} bytes of scratch memory, {fault.bytes_per_program:,} for each program and "
                f"CTA, and the allocator returned {fault.has:,}"
            )
        case ScratchFlaw.MISALIGNED:
            return (
                f"the scratch memory of {kernel} begins {fault.has} bytes beyond a multiple of {fault.align}, which "
                f"Triton asked for"
            )
        case ScratchFlaw.FREED:
            return f"the scratch memory of {kernel} ({needed} bytes) is freed before the launch: nothing holds it"
        case ScratchFlaw.SHARED:
            return f"the scratch memory of {kernel} ({needed} bytes) is part of {fault.other}, which the kernel uses"
        case ScratchFlaw.READ:
            program = f"program {fault.programs[0]}" if fault.programs else "a program"
            return f"{program} of {kernel} loads from its scratch memory through {fault.other} before a store to it"
        case ScratchFlaw.STORED:
            part = f"the part of program {fault.programs[0]}" if fault.programs else "a part"
            return (
                f"{kernel} stores {fault.has:,} bytes through {fault.other} into its scratch memory, first into {part}"
            )


SIZE = ScratchBuffer(
    50,
    "scratch-size",
    "Scratch memory has the size that Triton asks for: grid times CTAs times the bytes of a program.",
    frozenset({ScratchFlaw.TOO_SMALL}),
    "Programs beyond the end of the memory overwrite what lies behind it, and read descriptors that others wrote. An "
    "allocator that keeps its first buffer, or computes the size without the grid, fails with larger inputs only.",
)
ALIGNMENT = ScratchBuffer(
    60,
    "scratch-alignment",
    "Scratch memory begins at a multiple of the alignment that Triton asks for.",
    frozenset({ScratchFlaw.MISALIGNED}),
    "The hardware unit that reads descriptors (TMA) needs them at multiples of 64 bytes, and Triton asks for 128. A "
    "descriptor elsewhere ends the launch and the process's CUDA context.",
)
LIFETIME = ScratchBuffer(
    70,
    "scratch-lifetime",
    "Scratch memory belongs to the kernel alone, as long as it runs.",
    frozenset({ScratchFlaw.FREED, ScratchFlaw.SHARED}),
    "A launch returns before its kernel runs. Memory that is freed by then, or that something else uses as well, "
    "changes under the kernel: its descriptors then point anywhere.",
)
READS = ScratchBuffer(
    80,
    "scratch-read",
    "No kernel reads scratch memory before it has written it.",
    frozenset({ScratchFlaw.READ}),
    "The kernel's descriptors, or the last user's data, are there instead of the values that the kernel expects.",
)
STORES = ScratchBuffer(
    90,
    "scratch-store",
    "A program stores only its own descriptors to scratch memory, in its own part.",
    frozenset({ScratchFlaw.STORED}),
    "The store overwrites descriptors that this or another program still uses: its next access through them goes "
    "anywhere, or ends the process's CUDA context.",
)
ORACLES: tuple[ScratchBuffer, ...] = (SIZE, ALIGNMENT, LIFETIME, READS, STORES)
