"""The flight recorder, as a process writes it that may die: what it is doing, into memory that its parent holds too.

A ring of records of one size, so that a note costs about two microseconds and never grows.  The memory is the parent's
own mapping of the same file: whatever kills this process, what was noted stays.  Where no ring was given, as in the
parent itself, a note is one comparison.  `harness.workers.supervision.recorder_reader` is the other side.
"""

import itertools
import mmap
import os
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType

SLOTS = 256
SLOT_BYTES = 256
SIZE = SLOTS * SLOT_BYTES
HEAD = struct.Struct("<IQdIBBH")
"""Checksum of all that follows in the record, number, time, thread, kind, edge, bytes of text."""
CHECKSUM_BYTES = 4
TEXT_BYTES = SLOT_BYTES - HEAD.size
BETWEEN = "\x1f"
"""Parts subject and detail of a text."""


class Activity(IntEnum):
    """What a process may be doing."""

    CASE = 1
    PHASE = 2
    """`inputs`, `forward`, `backward`, `reference`, `compare`."""
    CALL = 3
    """A kernel is called, under the config that its autotuner was given."""
    COMPILE = 4
    LAUNCH = 5
    SYNCHRONISE = 6
    """The host waits for the device."""
    SWALLOWED = 7
    """An autotuner took an exception for a config that is infinitely slow, and went on."""


class Phase(IntEnum):
    """Which side of what it is doing."""

    BEGINS = 1
    ENDS = 2
    ONCE = 3
    """It has no duration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightEvent:
    """One record."""

    time_s: float
    """On the machine's monotonic clock, which parent and child share."""
    thread: int
    """The operating system's id of the thread that noted it."""
    kind: Activity
    edge: Phase
    subject: str
    """The kernel, phase or case."""
    detail: str


class _Ring:
    """The writing side; many threads may note at once."""

    def __init__(self, memory: mmap.mmap) -> None:
        self.memory = memory
        self._numbers = itertools.count(1)

    def note(self, kind: Activity, edge: Phase, subject: str, detail: str) -> None:
        number = next(self._numbers)  # atomic, so no two threads share a slot
        text = f"{subject}{BETWEEN}{detail}".encode(errors="replace")[:TEXT_BYTES]
        packed = HEAD.pack(0, number, time.monotonic(), threading.get_native_id(), kind, edge, len(text)) + text
        record = zlib.crc32(packed[CHECKSUM_BYTES:]).to_bytes(CHECKSUM_BYTES, "little") + packed[CHECKSUM_BYTES:]
        at = number % SLOTS * SLOT_BYTES
        self.memory[at : at + len(record)] = record


class _State:
    ring: _Ring | None = None


_state = _State()


def attach(fd: int) -> None:
    """Note into this file from now on, in this process alone; takes the descriptor over."""
    _state.ring = _Ring(mmap.mmap(fd, SIZE))
    os.close(fd)
    os.register_at_fork(after_in_child=detach)  # a child's notes would be taken for this process's


def detach() -> None:
    """Note nothing any more."""
    _state.ring = None


def note(kind: Activity, edge: Phase, subject: str, detail: str = "") -> None:
    """Note one event; of a long text the end is lost."""
    if (ring := _state.ring) is not None:
        ring.note(kind, edge, subject, detail)


class During:
    """A context manager: notes that something begins, and that it ends, also where it ends by an exception."""

    __slots__ = ("_detail", "_kind", "_subject")

    def __init__(self, kind: Activity, subject: str, detail: str = "") -> None:
        self._kind = kind
        self._subject = subject
        self._detail = detail

    def __enter__(self) -> None:
        note(self._kind, Phase.BEGINS, self._subject, self._detail)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        note(self._kind, Phase.ENDS, self._subject, "" if kind is None else kind.__name__)


class _Nothing:
    """In the place of `During` where nothing is noted."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return


_NOTHING = _Nothing()


def running(case: str) -> During | _Nothing:
    """While a case runs."""
    return During(Activity.CASE, case) if _state.ring is not None else _NOTHING


def phase(name: str) -> None:
    """A phase of the case begins, and so ends the one before."""
    note(Activity.PHASE, Phase.BEGINS, name)


def compiling(kernel: str) -> During | _Nothing:
    """While a kernel is compiled."""
    return During(Activity.COMPILE, kernel) if _state.ring is not None else _NOTHING


def calling(kernel: str, config: str) -> During | _Nothing:
    """While Triton is called for a kernel, which it may have to compile first."""
    return During(Activity.CALL, kernel, config) if _state.ring is not None else _NOTHING


def launching(kernel: str, grid: tuple[int, int, int], config: str = "") -> During | _Nothing:
    """While a kernel is launched; on a real GPU it may well run on when this ends."""
    if _state.ring is None:
        return _NOTHING
    return During(Activity.LAUNCH, kernel, f"grid {grid}{', ' if config else ''}{config}")


EARLIER = "what torch works on"
"""In the place of a kernel's name, while the host waits for what it did not launch by Triton."""


def synchronising(what: str = "the device") -> During | _Nothing:
    """While the host waits for the device."""
    return During(Activity.SYNCHRONISE, what) if _state.ring is not None else _NOTHING


def swallowed(kernel: str, error: str, config: str) -> None:
    """An autotuner went on after an exception."""
    note(Activity.SWALLOWED, Phase.ONCE, kernel, f"{error}, for config {config}")


def read(memory: bytes) -> Iterator[FlightEvent]:
    """The events of a ring, oldest first; records that were being written, or never were, are left out."""
    found: list[tuple[int, FlightEvent]] = []
    for at in range(0, SIZE, SLOT_BYTES):
        record = memory[at : at + SLOT_BYTES]
        checksum, number, time_s, thread, kind, edge, length = HEAD.unpack_from(record)
        if number == 0 or number * SLOT_BYTES % SIZE != at or length > TEXT_BYTES:
            continue
        if zlib.crc32(record[CHECKSUM_BYTES : HEAD.size + length]) != checksum:
            continue
        subject, _, detail = record[HEAD.size : HEAD.size + length].decode(errors="replace").partition(BETWEEN)
        event = FlightEvent(
            time_s=time_s, thread=thread, kind=Activity(kind), edge=Phase(edge), subject=subject, detail=detail
        )
        found.append((number, event))
    return (event for _, event in sorted(found, key=lambda one: one[0]))
