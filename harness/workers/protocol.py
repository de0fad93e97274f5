"""The protocol between the parent and a child: frames over a socket of their own, never over stdio.

    child  → HELLO  the engine's name: loaded and ready
    parent → CASE   a case for the device that the child wears, as JSON; perhaps before the last one is answered
    parent → BESIDE the wish for a companion on that device, as JSON
    child  → RUN    what it cost, the run as JSON
    child  → COMPANION  the same of a run that was compared with no reference
    child  → FAULT  in place of an answer: why the harness, a suite or a library cannot go on

The end of the stream tells the child to end.
"""

import socket
import struct
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from harness.errors import GpuUnavailable, HarnessError, LibraryError, SuiteError, WorkerError

HEAD = struct.Struct("!BI")
COST = struct.Struct("!dQ?d")
"""In front of a run: seconds inside the engine, bytes by which the child has grown, whether the process is lost, and
when it ended, on the monotonic clock."""


class FrameKind(IntEnum):
    """What a frame holds."""

    HELLO = 1
    CASE = 2
    RUN = 3
    FAULT = 4
    BESIDE = 5
    COMPANION = 6


KINDS = frozenset(FrameKind)


@dataclass(frozen=True, slots=True)
class Frame:
    """One message."""

    kind: FrameKind
    payload: bytes


class FaultKind(StrEnum):
    """Whose fault it is that a child cannot go on; each becomes the error of that name."""

    SUITE = "SuiteError"
    LIBRARY = "LibraryError"
    WORKER = "WorkerError"
    GPU = "GpuUnavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildError:
    """An error that a child met and its parent raises."""

    kind: FaultKind
    message: str

    def error(self) -> HarnessError:
        """The exception to raise, a new one each time."""
        match self.kind:
            case FaultKind.SUITE:
                return SuiteError(self.message)
            case FaultKind.LIBRARY:
                return LibraryError(self.message)
            case FaultKind.WORKER:
                return WorkerError(self.message)
            case FaultKind.GPU:
                return GpuUnavailable(self.message)


def send(to: socket.socket, kind: FrameKind, payload: bytes) -> None:
    """Send one frame whole."""
    to.sendall(HEAD.pack(kind, len(payload)) + payload)


class Inbox:
    """Puts frames together from the pieces in which they arrive."""

    def __init__(self) -> None:
        self._pieces = bytearray()

    def add(self, piece: bytes) -> None:
        """Take in what a read gave."""
        self._pieces += piece

    def take(self) -> Frame | None:
        """The next whole frame; None while it is not all there.

        Raises:
            WorkerError: what arrived is not a frame.
        """
        if len(self._pieces) < HEAD.size:
            return None
        kind, length = HEAD.unpack_from(self._pieces)
        if kind not in KINDS:
            raise WorkerError(f"a worker broke the protocol: its message begins with {bytes(self._pieces[:16])!r}")
        end = HEAD.size + length
        if len(self._pieces) < end:
            return None
        frame = Frame(FrameKind(kind), bytes(self._pieces[HEAD.size : end]))
        del self._pieces[:end]
        return frame
