"""The promise that results do not depend on undefined lanes."""

from harness.model.case import LaneFill
from harness.model.flaw_kind import FlawKind
from harness.model.paired_run import SecondRun
from harness.model.run import Completed, Refilled, Result, Run, UndefinedLanes
from harness.model.verdict import Abstain, Fail, Pass, Severity, Verdict
from harness.oracles.base import Evidence, SingleRunOracle
from harness.oracles.endings import describe, untraced
from harness.oracles.memory_events import place_of
from harness.oracles.traits import Causality, Need, PromiseScope, Traits

BLOCK_POINTER = "block pointer without padding_option"
"""The idiom of a load that checks boundaries, and leaves what lies beyond undefined: few kernels name a padding."""


class UndefinedLaneIndependence(SingleRunOracle):
    """Compares the bits of two runs with different values in undefined lanes: zero and 101.

    A masked load without `other` leaves lanes undefined.  The failure's place is the argument through which the first
    changed result was stored, since nothing identifies the load at fault.  Most cases of most kernels have such lanes.
    Therefore the engine itself runs the case twice: a paired run would make inputs and reference once more.
    """

    name = "undefined-lanes"
    promise = "What a masked load without `other` leaves undefined does not reach any result."
    traits = Traits(
        rank=210,
        flaw=FlawKind.PROMISE,
        causality=Causality.UNDEFINED_LANES,
        scope=PromiseScope.LAUNCH,
        needs=frozenset({Need.COMPARABLE_RESULTS}),
        second_run=SecondRun.LANE_FILL,
        varies_with_undefined_lanes=True,
        has_harmful_warnings=True,
    )

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """Fail at most once, with a warning: the hardware chooses the value of such lanes, usually zero."""
        run = evidence.run
        if reason := untraced(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if not undefined_lanes(run):
            return (Pass(oracle=self.name),)
        if run.case.lane_fill is not LaneFill.ZERO:
            return (
                Abstain(oracle=self.name, reason="this case is itself the one with other values in undefined lanes"),
            )
        if run.refilled is None:
            return (Abstain(oracle=self.name, reason="the case was not computed with other values in undefined lanes"),)
        if not isinstance(run.refilled.ending, Completed):
            reason = describe(run.refilled.ending)
            return (Abstain(oracle=self.name, reason=f"with other values in undefined lanes, {reason}"),)
        changed = changed_results(run, run.refilled)
        return (self._fail(run, changed),) if changed else (Pass(oracle=self.name),)

    def _fail(self, run: Run, changed: tuple[Result, ...]) -> Fail:
        kernel, place = changed[0].writer or ("", changed[0].name)
        events = reaching(undefined_lanes(run), run, kernel)
        names = ", ".join(result.name for result in changed)
        suspects = dict.fromkeys(f"{event.site.argument} ({place_of(event.site)})" for event in events)
        return Fail(
            signature=self.signature(run, kernel=kernel, place=place, severity=Severity.WARNING),
            message=(
                f"{names} {'changes' if len(changed) == 1 else 'change'} with what the lanes hold that "
                f"are masked off without `other` in the load of {', '.join(suspects)}"
            ),
            meaning=(
                "Triton leaves those lanes undefined: they are often zero, so tests pass, until another compiler "
                "version or GPU leaves something else there."
            ),
            source=events[0].site.source,
            launch_index=events[0].site.launch,
            idiom=BLOCK_POINTER if all(event.block_pointer for event in events) else "",
        )


ORACLES = (UndefinedLaneIndependence(),)


def undefined_lanes(run: Run) -> tuple[UndefinedLanes, ...]:
    """Return the loads that left lanes undefined, ordered by launch, line and argument."""
    events = (event for event in run.memory if isinstance(event, UndefinedLanes))
    return tuple(sorted(events, key=lambda event: (event.site.launch, place_of(event.site), event.site.argument)))


def reaching(events: tuple[UndefinedLanes, ...], run: Run, kernel: str) -> tuple[UndefinedLanes, ...]:
    """Return the events that may have reached this kernel's stores: those up to its last launch.

    All events are returned if no launch of the kernel is known.
    """
    last = max(
        (index for index, launch in enumerate(run.launches) if launch.kernel == kernel), default=len(run.launches)
    )
    return tuple(event for event in events if event.site.launch <= last) or events


def changed_results(run: Run, refilled: Refilled) -> tuple[Result, ...]:
    return tuple(result for result in run.results if refilled.digests.get(result.name) != result.digest)
