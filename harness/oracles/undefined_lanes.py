"""The result does not depend on lanes that are undefined."""

from harness.model.case import LaneFill
from harness.model.run import Completed, Refilled, Result, Run, UndefinedLanes
from harness.model.verdict import Abstain, Fail, Pass, Severity, Signature, Verdict
from harness.oracles.base import Alone, Evidence
from harness.oracles.endings import describe, unwatched
from harness.oracles.memory_events import place_of


class UndefinedLaneIndependence(Alone):
    """A masked load without `other` leaves lanes undefined; filling them with 101 instead of zero must change no bit.

    The failure's place is what stored the first result that changes: nothing tells which of several such loads is at
    fault.  The engine itself computes a case with such lanes a second time, for most cases of most kernels have some,
    and a companion would cost an inputs' and a reference's making more.
    """

    name = "undefined-lanes"
    promise = "What a masked load without `other` leaves undefined does not reach any result."

    def judge(self, evidence: Evidence) -> tuple[Verdict, ...]:
        """One failure at most, a warning: what such lanes hold is the hardware's choice, and usually zero."""
        run = evidence.run
        if reason := unwatched(run):
            return (Abstain(oracle=self.name, reason=reason),)
        if not undefined(run):
            return (Pass(oracle=self.name),)
        if run.case.lane_fill is not LaneFill.ZERO:
            return (Abstain(oracle=self.name, reason="this case is itself the one with the other filling"),)
        if run.refilled is None:
            return (Abstain(oracle=self.name, reason="the case was not computed with another filling of those lanes"),)
        if not isinstance(run.refilled.ending, Completed):
            reason = describe(run.refilled.ending)
            return (Abstain(oracle=self.name, reason=f"with another filling in the undefined lanes, {reason}"),)
        changed = changes(run, run.refilled)
        return (self._fail(run, changed),) if changed else (Pass(oracle=self.name),)

    def _fail(self, run: Run, changed: tuple[Result, ...]) -> Fail:
        kernel, place = changed[0].writer or ("", changed[0].name)
        events = before(undefined(run), run, kernel)
        names = ", ".join(result.name for result in changed)
        suspects = dict.fromkeys(f"{event.site.argument} ({place_of(event.site)})" for event in events)
        return Fail(
            signature=Signature(
                oracle=self.name, severity=Severity.WARNING, op=run.case.op, kernel=kernel, place=place
            ),
            message=(
                f"{names} {'changes' if len(changed) == 1 else 'change'} with what the lanes hold that "
                f"are masked off without `other` in the load of {', '.join(suspects)}"
            ),
            meaning=(
                "Triton leaves those lanes undefined: they are often zero, so tests pass, until another compiler "
                "version or GPU leaves something else there."
            ),
            source=events[0].site.source,
        )


def undefined(run: Run) -> tuple[UndefinedLanes, ...]:
    """The loads that left lanes undefined, in the order of kernel and line."""
    events = (event for event in run.memory if isinstance(event, UndefinedLanes))
    return tuple(sorted(events, key=lambda event: (event.site.launch, place_of(event.site), event.site.argument)))


def before(events: tuple[UndefinedLanes, ...], run: Run, kernel: str) -> tuple[UndefinedLanes, ...]:
    """The events that can have reached what this kernel stored: those up to its last launch; all if none is named."""
    last = max(
        (index for index, launch in enumerate(run.launches) if launch.kernel == kernel), default=len(run.launches)
    )
    return tuple(event for event in events if event.site.launch <= last) or events


def changes(run: Run, refilled: Refilled) -> tuple[Result, ...]:
    """The results that are not equal bit for bit."""
    return tuple(result for result in run.results if refilled.digests.get(result.name) != result.digest)
