"""The promise that the threads of a launch order their accesses to global memory."""

from collections.abc import Sequence

from harness.model.flaw_kind import FlawKind
from harness.model.run import Access, NarrowAtomic, ThreadRace
from harness.model.verdict import Abstain, Fail, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.memory_events import at_line, cell, cells, judge_lines, place_of, was_or_were
from harness.oracles.traits import PromiseScope, Traits

RACE = (
    "A tile is a single value in the kernel's text, but each of its elements belongs to one thread of the program, and "
    "warps run in no order. Triton adds barriers for shared memory only, never for global memory. A "
    "tl.debug_barrier() between the two lines is missing. Without it the result depends on the GPU, the number of "
    "warps and the day."
)
SCOPE = (
    'An atomic of scope "cta" is atomic for the threads of its own program only. Updates of other programs may be '
    'lost. Use scope="gpu", which is the default.'
)
PAST = {Access.LOAD: "loaded", Access.STORE: "stored", Access.ATOMIC: "updated"}


class NoThreadRace(SingleRunOracle):
    """Fails on cells that two warps of one program touch without a barrier, and on atomics of too narrow a scope.

    The virtual GPU traces up to three programs of a launch, and takes layouts and barriers from the compiled code.
    """

    name = "thread-race"
    promise = (
        "No two threads touch a cell, one of them with a store, unless a barrier or a wide enough atomic orders them."
    )
    # `Causality.APART`: the virtual GPU moves whole tiles, so a race changes no value there.
    traits = Traits(rank=180, flaw=FlawKind.RACE, scope=PromiseScope.LAUNCH)

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail once for each line of the later access; abstain if a launch could not be decided."""
        run = evidence.run

        def fail(group: Sequence[ThreadRace | NarrowAtomic]) -> Fail:
            first = group[0]
            is_race = isinstance(first, ThreadRace)
            return Fail(
                signature=self.signature(run, kernel=first.site.kernel, place=place_of(first.site)),
                message=f"{race_sentence(first) if is_race else scope_sentence(first)}{at_line(group)}",
                meaning=RACE if is_race else SCOPE,
                source=first.site.source,
                launch_index=first.site.launch,
                argument=first.site.argument,
            )

        events = [event for event in run.memory if isinstance(event, ThreadRace | NarrowAtomic)]
        unknown = next((launch for launch in run.launches if launch.threads_unknown), None)
        if unknown is not None and not events:
            return (Abstain(oracle=self.name, reason=f"{unknown.kernel}: {unknown.threads_unknown}"),)
        return judge_lines(self.name, run, events, fail)


ORACLES = (NoThreadRace(),)


def race_sentence(event: ThreadRace) -> str:
    """Return for example `y[32] is stored by warp 1 and loaded by warp 0 without a barrier between the two`."""
    argument, (earlier, later) = event.site.argument, event.accesses
    earlier_access, later_access = (
        f"{PAST[access]} by warp {warp}{_at(position)}"
        for access, warp, position in zip(event.accesses, event.warps, event.positions, strict=True)
    )
    line = f" ({event.earlier})" if event.earlier and event.earlier != event.site.source else ""
    then = "again " if earlier is later else ""
    more = f", as are {event.cells - 1} more cells" if event.cells > 1 else ""
    first = cell(argument, event.first_cells[0]) if event.first_cells else f"a cell of {argument}"
    return (
        f"{first} is {earlier_access}{line}, then {then}{later_access}, in program {event.program} "
        f"and without a barrier between the two{more}"
    )


def _at(position: tuple[int, ...]) -> str:
    return f" as element [{', '.join(map(str, position))}] of a tile" if position else ""


def scope_sentence(event: NarrowAtomic) -> str:
    program, other_program = event.programs
    return (
        f"{cells(event.site.argument, event.first_cells, event.cells)} {was_or_were(event.cells)} updated by programs "
        f'{program} and {other_program}, by atomics of scope "cta"'
    )
