"""The writing side of the flight recorder: a child process records what it does in memory that its parent shares.

The recorder is a ring of records of equal size, so a record costs about two microseconds and never allocates.  Parent
and child map the same file: whatever kills the child, its records stay.  Without a ring, as in the parent itself,
recording costs one comparison.  `harness.workers.supervision.recorder_reader` is the reading side.
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
"""The head of a record: checksum of the rest of the record, number, time, thread, kind, edge, bytes of text."""
CHECKSUM_BYTES = 4
TEXT_BYTES = SLOT_BYTES - HEAD.size
BETWEEN = "\x1f"
"""The separator between subject and detail in a record's text."""


class Activity(IntEnum):
    """The kinds of activity that are recorded."""

    CASE = 1
    PHASE = 2
    """`inputs`, `forward`, `backward`, `reference`, `compare`."""
    CALL = 3
    """The call of a kernel with a config of its autotuner."""
    COMPILE = 4
    LAUNCH = 5
    SYNCHRONISE = 6
    """The host waits for the device."""
    SWALLOWED = 7
    """An autotuner caught an exception, and continued with the next config."""
    LACKING = 8
    """A launch found no allocator of scratch memory."""


class Edge(IntEnum):
    """The beginning or the end of an activity."""

    BEGINS = 1
    ENDS = 2
    ONCE = 3
    """The activity has no duration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightEvent:
    """One record of the flight recorder."""

    time_s: float
    """On the machine's monotonic clock, which parent and child share."""
    thread: int
    """The operating system's id of the thread that noted it."""
    kind: Activity
    edge: Edge
    subject: str
    """The kernel, phase or case."""
    detail: str


class _Ring:
    """A ring in shared memory; many threads may write at once."""

    def __init__(self, memory: mmap.mmap) -> None:
        self.memory = memory
        self._numbers = itertools.count(1)

    def note(self, kind: Activity, edge: Edge, subject: str, detail: str) -> None:
        number = next(self._numbers)  # atomic under the GIL, so no two threads share a slot
        text = f"{subject}{BETWEEN}{detail}".encode(errors="replace")[:TEXT_BYTES]
        packed = HEAD.pack(0, number, time.monotonic(), threading.get_native_id(), kind, edge, len(text)) + text
        # The reader may see a record that is half written: the checksum shows it.
        record = zlib.crc32(packed[CHECKSUM_BYTES:]).to_bytes(CHECKSUM_BYTES, "little") + packed[CHECKSUM_BYTES:]
        at = number % SLOTS * SLOT_BYTES
        self.memory[at : at + len(record)] = record


class _State:
    ring: _Ring | None = None


_state = _State()


def attach(fd: int) -> None:
    """Record into this file from now on, in this process but not in its children; takes ownership of the descriptor."""
    _state.ring = _Ring(mmap.mmap(fd, SIZE))
    os.close(fd)
    os.register_at_fork(after_in_child=detach)  # records of a child would look like this process's


def detach() -> None:
    """Stop recording."""
    _state.ring = None


def note(kind: Activity, edge: Edge, subject: str, detail: str = "") -> None:
    """Record one event; a long text is cut off."""
    if (ring := _state.ring) is not None:
        ring.note(kind, edge, subject, detail)


class During:
    """Records the beginning of an activity, and its end, which may be an exception."""

    __slots__ = ("_detail", "_kind", "_subject")

    def __init__(self, kind: Activity, subject: str, detail: str = "") -> None:
        self._kind = kind
        self._subject = subject
        self._detail = detail

    def __enter__(self) -> None:
        note(self._kind, Edge.BEGINS, self._subject, self._detail)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        note(self._kind, Edge.ENDS, self._subject, "" if kind is None else kind.__name__)


class _Nothing:
    """The context manager in the place of `During` without a ring."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return


_NOTHING = _Nothing()


def running(case: str) -> During | _Nothing:
    """Record a case."""
    return During(Activity.CASE, case) if _state.ring is not None else _NOTHING


def phase(name: str) -> None:
    """Record that a phase of the case begins; the phase before ends."""
    note(Activity.PHASE, Edge.BEGINS, name)


def compiling(kernel: str) -> During | _Nothing:
    """Record the compilation of a kernel."""
    return During(Activity.COMPILE, kernel) if _state.ring is not None else _NOTHING


def calling(kernel: str, config: str) -> During | _Nothing:
    """Record a call of a kernel, which Triton may have to compile first."""
    return During(Activity.CALL, kernel, config) if _state.ring is not None else _NOTHING


def launching(kernel: str, grid: tuple[int, int, int], config: str = "") -> During | _Nothing:
    """Record the launch of a kernel; on a hardware GPU the kernel may still run when the launch ends."""
    if _state.ring is None:
        return _NOTHING
    return During(Activity.LAUNCH, kernel, f"grid {grid}{', ' if config else ''}{config}")


EARLIER_WORK = "what torch works on"
"""The subject of waiting for work that was not launched by Triton."""


def synchronising(what: str = "the device") -> During | _Nothing:
    """Record that the host waits for the device."""
    return During(Activity.SYNCHRONISE, what) if _state.ring is not None else _NOTHING


def swallowed(kernel: str, error: str, config: str) -> None:
    """Record that an autotuner continued after an exception."""
    note(Activity.SWALLOWED, Edge.ONCE, kernel, f"{error}, for config {config}")


def lacking_allocator(kernel: str, size_bytes: int, elsewhere: str) -> None:
    """Record that a launch in this thread found no allocator; `elsewhere` says where one is set."""
    thread = threading.current_thread().name
    detail = f"{size_bytes:,} bytes of scratch memory, in thread {thread}{elsewhere and f'; one is set {elsewhere}'}"
    note(Activity.LACKING, Edge.ONCE, kernel, detail)


def read(memory: bytes) -> Iterator[FlightEvent]:
    """Yield the events of a ring, oldest first, without records that are half written or empty."""
    events: list[tuple[int, FlightEvent]] = []
    for at in range(0, SIZE, SLOT_BYTES):
        record = memory[at : at + SLOT_BYTES]
        checksum, number, time_s, thread, kind, edge, length = HEAD.unpack_from(record)
        if number == 0 or number * SLOT_BYTES % SIZE != at or length > TEXT_BYTES:
            continue
        if zlib.crc32(record[CHECKSUM_BYTES : HEAD.size + length]) != checksum:
            continue
        subject, _, detail = record[HEAD.size : HEAD.size + length].decode(errors="replace").partition(BETWEEN)
        event = FlightEvent(
            time_s=time_s, thread=thread, kind=Activity(kind), edge=Edge(edge), subject=subject, detail=detail
        )
        events.append((number, event))
    return (event for _, event in sorted(events, key=lambda pair: pair[0]))
