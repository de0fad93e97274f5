"""The protocol between the parent and a child: frames over a socket of their own, never over stdio.

    child  → HELLO               the engine's name: the child is ready.
    parent → CASE                a case for the device that the child emulates, as JSON.
    parent → PAIRED_RUN_REQUEST  a request for a paired run on that device, as JSON.
    parent → REBUILT_REQUEST     a request for a run whose kernels are assembled in another way, as JSON.
    child  → RUN                 `COST`, then the run as JSON.
    child  → PAIRED_RUN          the same for a run that was compared with no reference.
    child  → FAULT               instead of an answer: why the harness, a suite or a library cannot go on.

The parent may send a request before the child has answered the last one.  The end of the stream tells the child to end.
"""

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from harness.errors import GpuUnavailable, HarnessError, LibraryError, MissingPart, StoreError, SuiteError, WorkerError
from harness.model.case import Case
from harness.model.paired_run import PairedRun, PairedRunRequest, RebuiltRequest, RunRequest
from harness.model.run import Run

HEAD = struct.Struct("!BI")
"""In front of a payload: the kind of the frame and the payload's length in bytes."""
COST = struct.Struct("!dQ?d")
"""In front of a run: seconds inside the engine, bytes by which the child has grown, whether the process is lost.

At last, when the run ended, in seconds of the monotonic clock.
"""


class FrameKind(IntEnum):
    HELLO = 1
    CASE = 2
    RUN = 3
    FAULT = 4
    PAIRED_RUN_REQUEST = 5
    PAIRED_RUN = 6
    REBUILT_REQUEST = 7


KINDS = frozenset(FrameKind)
REQUEST_TYPES: Mapping[FrameKind, type[Case] | type[PairedRunRequest] | type[RebuiltRequest]] = {
    FrameKind.CASE: Case,
    FrameKind.PAIRED_RUN_REQUEST: PairedRunRequest,
    FrameKind.REBUILT_REQUEST: RebuiltRequest,
}
ANSWER_TYPES: Mapping[FrameKind, type[Run]] = {FrameKind.RUN: Run, FrameKind.PAIRED_RUN: PairedRun}
_KIND_BY_TYPE = {kind_type: kind for kind, kind_type in (*REQUEST_TYPES.items(), *ANSWER_TYPES.items())}


def kind_of(message: RunRequest | Run) -> FrameKind:
    """The kind of frame that carries a request or an answer."""
    return _KIND_BY_TYPE[type(message)]


@dataclass(frozen=True, slots=True)
class Frame:
    kind: FrameKind
    payload: bytes


class FaultKind(StrEnum):
    """Who is at fault when a child cannot go on: the name of the error that the parent raises."""

    SUITE = "SuiteError"
    LIBRARY = "LibraryError"
    WORKER = "WorkerError"
    DISK = "StoreError"
    GPU = "GpuUnavailable"
    PART = "MissingPart"


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
            case FaultKind.DISK:
                return StoreError(f"cases cannot write their files: {self.message}")
            case FaultKind.GPU:
                return GpuUnavailable(self.message)
            case FaultKind.PART:
                return MissingPart(self.message)


def send(to: socket.socket, kind: FrameKind, payload: bytes) -> None:
    to.sendall(HEAD.pack(kind, len(payload)) + payload)


class Inbox:
    """Puts frames together from the pieces in which they arrive."""

    def __init__(self) -> None:
        self._pieces = bytearray()

    def add(self, piece: bytes) -> None:
        self._pieces += piece

    def take(self) -> Frame | None:
        """The next whole frame; None until all of it has arrived.

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
