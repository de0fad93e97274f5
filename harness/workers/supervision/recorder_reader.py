"""The parent's side of a flight recorder: what the child was doing, however it ended.

The parent makes the memory and keeps it mapped, so not even SIGKILL loses what was noted before.
`harness.execution.flight_recorder` is the side that writes.
"""

import mmap
import os
from dataclasses import dataclass

from harness.execution import flight_recorder
from harness.execution.flight_recorder import Activity, Edge, FlightEvent
from harness.model.run import Doing

SHOWN = 12
KERNEL_ACTIVITIES = (Activity.CALL, Activity.COMPILE, Activity.LAUNCH, Activity.SYNCHRONISE)
WORDS = {
    Activity.CASE: "case",
    Activity.PHASE: "phase",
    Activity.CALL: "call of",
    Activity.COMPILE: "compilation of",
    Activity.LAUNCH: "launch of",
    Activity.SYNCHRONISE: "waiting for",
    Activity.SWALLOWED: "autotuner of",
    Activity.LACKING: "launch of",
}
PHASE_WORDS = {
    "inputs": "making inputs",
    "forward": "calling the op",
    "backward": "calling the op's backward",
    "reference": "computing the definition",
    "compare": "comparing results",
}
EDGES = {Edge.BEGINS: " begins", Edge.ENDS: " ends", Edge.ONCE: " swallowed"}


@dataclass(frozen=True, slots=True)
class Flight:
    """The notes of a child about the case that it was running, oldest first."""

    events: tuple[FlightEvent, ...]

    @property
    def last(self) -> FlightEvent | None:
        return self.events[-1] if self.events else None

    @property
    def unfinished(self) -> FlightEvent | None:
        """The latest call, compilation, launch or synchronisation that has begun and not ended."""
        unfinished: list[FlightEvent] = []
        for event in self.events:
            if event.kind in KERNEL_ACTIVITIES and event.edge is Edge.BEGINS:
                unfinished.append(event)
            elif event.edge is Edge.ENDS:
                same = [begun for begun in unfinished if (begun.thread, begun.kind) == (event.thread, event.kind)]
                if same:
                    unfinished.remove(same[-1])
        return unfinished[-1] if unfinished else None

    @property
    def launches(self) -> tuple[str, ...]:
        """The kernels that were launched, as far back as the ring reaches."""
        return tuple(
            event.subject for event in self.events if (event.kind, event.edge) == (Activity.LAUNCH, Edge.BEGINS)
        )

    @property
    def launched(self) -> str | None:
        """The kernel that was launched last."""
        return self.launches[-1] if self.launches else None

    @property
    def phase(self) -> str:
        """The phase that began last; empty if the ring has none."""
        return next((event.subject for event in reversed(self.events) if event.kind is Activity.PHASE), "")

    @property
    def is_waited_for(self) -> bool:
        """True if the host has waited for every launch: what the GPU does now is then another process's work."""
        for event in reversed(self.events):
            match event.kind, event.edge:
                case Activity.SYNCHRONISE, Edge.ENDS:
                    return True
                case ((Activity.SYNCHRONISE | Activity.LAUNCH), Edge.BEGINS):
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
            case FlightEvent(kind=Activity.SYNCHRONISE, subject=flight_recorder.EARLIER_WORK):
                return None  # some kernel of torch, whose launches are not noted
            case FlightEvent(kind=Activity.SYNCHRONISE):
                return self.launched
            case FlightEvent(subject=kernel):
                return kernel

    @property
    def doing(self) -> Doing:
        """The activity that concerned `kernel`."""
        match self.unfinished:
            case FlightEvent(kind=Activity.CALL):
                return Doing.CALLED
            case FlightEvent(kind=Activity.COMPILE):
                return Doing.COMPILED
            case FlightEvent(kind=Activity.SYNCHRONISE):
                return Doing.WAITED_FOR
            case _:
                return Doing.LAUNCHED

    def activity(self, now_s: float) -> str:
        """What the child does now, and since when: `compiling rms_norm_kernel for 4 s`; empty if that is not known."""
        event = self.unfinished or next((past for past in reversed(self.events) if past.kind is Activity.PHASE), None)
        if event is None:
            return ""
        doing = PHASE_WORDS.get(event.subject, event.subject) if event.kind is Activity.PHASE else _doing(event)
        return f"{doing} for {max(0.0, now_s - event.time_s):.0f} s"

    @property
    def swallowed(self) -> tuple[str, ...]:
        """The exceptions that autotuners swallowed, and those of missing allocators, one sentence each."""
        sentences = (_swallowed(event) for event in self.events)
        return tuple(dict.fromkeys(filter(None, sentences)))

    @property
    def last_in_words(self) -> str:
        """The last event in words: `launch of spin_kernel begins: grid (1, 1, 1)`."""
        return _words(self.events[-1]) if self.events else "nothing"

    def lines(self) -> tuple[str, ...]:
        """The last few events as text, with the seconds since the first."""
        return tuple(_line(event, self.events[0].time_s) for event in self.events[-SHOWN:])


class Recorder:
    """The memory of one ring of notes: the child gets the file, the parent maps it."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("flight-recorder")
        """For the child; closed by `hand_over`."""
        os.ftruncate(self.fd, flight_recorder.SIZE)
        self._memory = mmap.mmap(self.fd, flight_recorder.SIZE, prot=mmap.PROT_READ)

    def hand_over(self) -> None:
        """Close the file, when the child has its copy or never will."""
        os.close(self.fd)

    def since(self, time_s: float) -> Flight:
        """The notes about the last case that began after this time on the monotonic clock."""
        events = [event for event in flight_recorder.read(self._memory[:]) if event.time_s >= time_s]
        begins = [at for at, event in enumerate(events) if event.kind is Activity.CASE and event.edge is Edge.BEGINS]
        return Flight(tuple(events[begins[-1] :] if begins else events))

    def close(self) -> None:
        self._memory.close()


def _doing(event: FlightEvent) -> str:
    match event.kind:
        case Activity.COMPILE:
            return f"compiling {event.subject}"
        case Activity.SYNCHRONISE:
            return f"waiting for {event.subject}"
        case _:
            return f"running {event.subject}"


def _line(event: FlightEvent, begun_s: float) -> str:
    return f"{event.time_s - begun_s:+.3f} s  {_words(event)}"


def _words(event: FlightEvent) -> str:
    detail = f": {event.detail}" if event.detail else ""
    if event.kind is Activity.LACKING:
        return f"launch of {event.subject} found no allocator{detail}"
    return f"{WORDS[event.kind]} {event.subject}{EDGES[event.edge]}{detail}"


def _swallowed(event: FlightEvent) -> str:
    match event.kind:
        case Activity.SWALLOWED:
            return f"the autotuner of {event.subject} swallowed {event.detail}"
        case Activity.LACKING:
            return f"the launch of {event.subject} found no allocator for {event.detail}"
        case _:
            return ""
