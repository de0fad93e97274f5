"""The promise that what a kernel tells the compiler is true."""

from collections.abc import Sequence

from harness.model.flaw_kind import FlawKind
from harness.model.run import FalseAssumption, FalseHint, ForeignArgument, HintBreach
from harness.model.verdict import Fail, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.memory_events import at_line, judge_lines, place_of
from harness.oracles.traits import PromiseScope, Traits

Promise = FalseAssumption | FalseHint | ForeignArgument

MEANINGS: dict[type[Promise], str] = {
    FalseAssumption: (
        "The compiler may drop whatever runs only where the assumption is false, and compute with the values that it "
        "implies: what the kernel does then is undefined, and may change with each release of the compiler."
    ),
    FalseHint: (
        "The compiler believes the hint, and may let one thread access so many lanes at once. The hardware then moves "
        "other elements than the kernel's, or ends the launch with `misaligned address`. If it happens depends on the "
        "number of warps, the layout and the release of the compiler."
    ),
    ForeignArgument: (
        "Triton chooses a build by the launch's arguments. This launch goes through a build that was made for others, "
        "and nothing checks it: the GPU computes with the value of the build, or joins accesses to memory that cannot "
        "be joined for this argument."
    ),
}


class CompilerHintsHold(SingleRunOracle):
    """Fails on false assumptions, on false hints that widen an access, and on builds for other arguments.

    Lanes that the access masks off do not count.
    """

    name = "compiler-hint"
    promise = "What a kernel tells the compiler is true: assumptions, hints about lanes, specialised arguments."
    traits = Traits(rank=145, flaw=FlawKind.PROMISE, scope=PromiseScope.LAUNCH)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each line with a false hint, and for each argument that the build was not made for."""
        run = evidence.run

        def fail(group: Sequence[Promise]) -> Fail:
            first = group[0]
            return Fail(
                signature=self.signature(run, kernel=first.site.kernel, place=place_of(first.site)),
                message=f"{sentence(first)}{at_line(group)}",
                meaning=MEANINGS[type(first)],
                source=first.site.source or run.launches[first.site.launch].source,
                launch_index=first.site.launch,
                argument=first.site.argument,
            )

        return judge_lines(self.name, run, (event for event in run.memory if isinstance(event, Promise)), fail)


ORACLES = (CompilerHintsHold(),)


def sentence(event: Promise) -> str:
    """Return for example `tl.assume is false in 1 program of double_kernel, first in program 0`."""
    match event:
        case FalseAssumption():
            programs = "1 program" if event.programs == 1 else f"{event.programs} programs"
            return f"tl.assume is false in {programs} of {event.site.kernel}, first in program {event.program}"
        case FalseHint():
            values = ", ".join(map(str, event.values))
            hint = f"{event.hint}({values})" if len(event.values) == 1 else f"{event.hint}([{values}])"
            at = f" at {event.access}" if event.access and event.access != event.site.source else ""
            return (
                f"{hint} is false: in program {event.program} it joins {event.width} lanes of "
                f"{event.site.argument}{at}, {_shown(event)}"
            )
        case ForeignArgument():
            return (
                f"{event.site.kernel} was launched with {event.site.argument} {event.passed}, through a build for "
                f"{event.promised}"
            )


def _shown(event: FalseHint) -> str:
    name, first, *more = event.site.argument, *event.seen
    match event.breach:
        case HintBreach.APART:
            other, distance = more
            lanes = "1 lane" if distance == 1 else f"{distance} lanes"
            return f"of which {name}[{first}] and {name}[{other}] are {lanes} apart"
        case HintBreach.MISALIGNED:
            return f"which begin at {name}[{first}], {more[0]} bytes beyond a multiple of their size"
        case HintBreach.UNEVEN:
            return f"of which the mask has {first}"
