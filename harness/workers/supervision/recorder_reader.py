"""The flight recorder of one child, as its parent reads it: what the child was doing, whatever became of it.

The parent makes the memory and keeps it mapped, so not even SIGKILL loses what was noted before.
`harness.ops.flight_recorder` is the side that writes.
"""

import mmap
import os
from dataclasses import dataclass

from harness.model.run import Doing
from harness.ops import flight_recorder
from harness.ops.flight_recorder import Activity, FlightEvent, Phase

SHOWN = 12
OF_KERNELS = (Activity.CALL, Activity.COMPILE, Activity.LAUNCH, Activity.SYNCHRONISE)
WORDS = {
    Activity.CASE: "case",
    Activity.PHASE: "phase",
    Activity.CALL: "call of",
    Activity.COMPILE: "compilation of",
    Activity.LAUNCH: "launch of",
    Activity.SYNCHRONISE: "waiting for",
    Activity.SWALLOWED: "autotuner of",
}
EDGES = {Phase.BEGINS: " begins", Phase.ENDS: " ends", Phase.ONCE: " swallowed"}


@dataclass(frozen=True, slots=True)
class Flight:
    """What a child noted of the case that it was running, oldest first."""

    events: tuple[FlightEvent, ...]

    @property
    def last(self) -> FlightEvent | None:
        """The latest of all."""
        return self.events[-1] if self.events else None

    @property
    def unfinished(self) -> FlightEvent | None:
        """The call, compilation, launch or synchronisation that began last, of those that have not ended."""
        open_ones: list[FlightEvent] = []
        for event in self.events:
            if event.kind in OF_KERNELS and event.edge is Phase.BEGINS:
                open_ones.append(event)
            elif event.edge is Phase.ENDS:
                of_it = [one for one in open_ones if (one.thread, one.kind) == (event.thread, event.kind)]
                if of_it:
                    open_ones.remove(of_it[-1])
        return open_ones[-1] if open_ones else None

    @property
    def launches(self) -> tuple[str, ...]:
        """The kernels that were launched, as far as the ring goes back."""
        return tuple(
            event.subject for event in self.events if (event.kind, event.edge) == (Activity.LAUNCH, Phase.BEGINS)
        )

    @property
    def launched(self) -> str | None:
        """The kernel that was launched last."""
        return self.launches[-1] if self.launches else None

    @property
    def is_waited_for(self) -> bool:
        """Whether every launch so far was waited for to its end: what the GPU does now is none of this process's."""
        for event in reversed(self.events):
            match event.kind, event.edge:
                case Activity.SYNCHRONISE, Phase.ENDS:
                    return True
                case ((Activity.SYNCHRONISE | Activity.LAUNCH), Phase.BEGINS):
                    return False
                case _:
                    continue
        return True

    @property
    def kernel(self) -> str | None:
        """The kernel that was being called, compiled, launched or waited for, if one was."""
        match self.unfinished:
            case None:
                return None
            case FlightEvent(kind=Activity.SYNCHRONISE, subject=flight_recorder.EARLIER):
                return None  # which kernel of torch's it is, nobody notes
            case FlightEvent(kind=Activity.SYNCHRONISE):
                return self.launched
            case FlightEvent(subject=kernel):
                return kernel

    @property
    def doing(self) -> Doing:
        """What was being done with that kernel."""
        match self.unfinished:
            case FlightEvent(kind=Activity.CALL):
                return Doing.CALLED
            case FlightEvent(kind=Activity.COMPILE):
                return Doing.COMPILED
            case FlightEvent(kind=Activity.SYNCHRONISE):
                return Doing.WAITED_FOR
            case _:
                return Doing.LAUNCHED

    @property
    def swallowed(self) -> tuple[str, ...]:
        """What autotuners hid, one sentence each."""
        hidden = [event for event in self.events if event.kind is Activity.SWALLOWED]
        return tuple(dict.fromkeys(f"the autotuner of {one.subject} swallowed {one.detail}" for one in hidden))

    @property
    def last_words(self) -> str:
        """The latest of all in words: `launch of spin_kernel begins: grid (1, 1, 1)`."""
        return _words(self.events[-1]) if self.events else "nothing"

    def lines(self) -> tuple[str, ...]:
        """The last few as text, with the seconds since the first."""
        return tuple(_line(event, self.events[0].time_s) for event in self.events[-SHOWN:])


class Recorder:
    """One ring: its file is for the child, its memory for the parent."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("flight-recorder")
        """To be given to the child, and closed by `hand_over`."""
        os.ftruncate(self.fd, flight_recorder.SIZE)
        self._memory = mmap.mmap(self.fd, flight_recorder.SIZE, prot=mmap.PROT_READ)

    def hand_over(self) -> None:
        """The child has its copy of the file, or never will."""
        os.close(self.fd)

    def since(self, time_s: float) -> Flight:
        """What was noted of the last case that began after this time on the monotonic clock."""
        events = [event for event in flight_recorder.read(self._memory[:]) if event.time_s >= time_s]
        begins = [at for at, event in enumerate(events) if event.kind is Activity.CASE and event.edge is Phase.BEGINS]
        return Flight(tuple(events[begins[-1] :] if begins else events))

    def close(self) -> None:
        """Forget all."""
        self._memory.close()


def _line(event: FlightEvent, begun_s: float) -> str:
    return f"{event.time_s - begun_s:+.3f} s  {_words(event)}"


def _words(event: FlightEvent) -> str:
    detail = f": {event.detail}" if event.detail else ""
    return f"{WORDS[event.kind]} {event.subject}{EDGES[event.edge]}{detail}"
