"""What the parent holds of one child: socket, output, flight recorder, exit status, and the means to kill it."""

import contextlib
import os
import select
import socket
from dataclasses import dataclass
from time import monotonic

from harness.workers.protocol import Frame, FrameKind, Inbox, send
from harness.workers.supervision import linux
from harness.workers.supervision.recorder_reader import Recorder
from harness.workers.zygote.standard_forkserver import SIGNED

TAIL_BYTES = 8192
PIECE_BYTES = 65536
LEFTOVER_PIECES = 256
REAP_LIMIT_S = 10.0
STACK_LIMIT_S = 0.3
QUIET_S = 0.03


@dataclass(frozen=True, slots=True)
class Exited:
    """The process ended.  `code` is its exit status, or minus the signal that killed it."""

    code: int
    unread: bool
    """It had not read all that it was sent."""


@dataclass(frozen=True, slots=True)
class Orphaned:
    """The process ended because its fork server did; nobody knows how."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Nothing came within the limit."""


class Channel:
    """One child, seen from the parent.  One thread waits on it; any thread may kill it."""

    def __init__(self, stream: socket.socket, log_fd: int, status_fd: int, recorder: Recorder) -> None:
        self.recorder = recorder
        self._stream = stream
        self._log_fd = log_fd
        self._status_fd = status_fd
        self._inbox = Inbox()
        self._tail = b""
        self._status = b""
        self._ended: Exited | Orphaned | None = None
        self._unread = False
        self._poll = select.poll()
        for fd in (stream.fileno(), log_fd, status_fd):
            self._poll.register(fd, select.POLLIN)

    @property
    def pid(self) -> int | None:
        """The child's process id, once the fork server has told it."""
        if len(self._status) < SIGNED.size:
            return None
        return SIGNED.unpack_from(self._status)[0]

    @property
    def log_tail(self) -> str:
        """The last of what the child printed since `forget_log`; no line of it lacks its beginning."""
        whole = self._tail if len(self._tail) < TAIL_BYTES else self._tail.partition(b"\n")[2] or self._tail
        return whole.decode(errors="replace")

    def forget_log(self) -> None:
        """Begin a new log."""
        self._tail = b""

    def ended(self) -> bool:
        """Whether the process is known to have ended, without waiting."""
        self._read_ready(0)
        return self._ended is not None

    def send(self, kind: FrameKind, payload: bytes) -> bool:
        """Send a frame; False if the child is gone."""
        try:
            send(self._stream, kind, payload)
        except OSError:
            return False
        return True

    def wait(self, limit_s: float) -> Frame | Exited | Orphaned | NoAnswer:
        """The next frame, or that there will be none."""
        deadline = monotonic() + limit_s
        while True:
            if frame := self._inbox.take():
                return frame
            if self._ended is not None:
                return self._ended
            left = deadline - monotonic()
            if left <= 0:
                return NoAnswer()
            self._read_ready(left)

    def wait_for_stack(self) -> None:
        """Have a hanging child print where it stands."""
        if self.pid is None or self._ended is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, linux.STACK_SIGNAL)
        deadline = monotonic() + STACK_LIMIT_S
        before = self._tail
        while monotonic() < deadline:
            self._read_ready(QUIET_S)
            if self._tail == before != b"":
                return
            before = self._tail

    def kill(self) -> None:
        """Kill the child and all that it started.  What it started can still be alive when the child is not."""
        if self.pid is not None:
            linux.kill_group(self.pid)

    def close(self) -> None:
        """Kill the child and wait until it is gone.  One not forked yet will find its socket closed, and end."""
        self.kill()
        deadline = monotonic() + REAP_LIMIT_S
        while self.pid is not None and self._ended is None and monotonic() < deadline:
            self._read_ready(deadline - monotonic())
            self.kill()
        self._stream.close()
        os.close(self._log_fd)
        os.close(self._status_fd)
        self.recorder.close()

    def _read_ready(self, limit_s: float) -> None:
        for fd, _ in self._poll.poll(max(0.0, limit_s) * 1000):
            if fd == self._status_fd:
                self._read_status()
            elif fd == self._log_fd:
                self._read_log()
            else:
                self._read_stream()

    def _read_stream(self) -> None:
        try:
            piece = self._stream.recv(PIECE_BYTES)
        except ConnectionResetError:  # what Linux answers when the other end was closed with something left to read
            self._unread = True
            piece = b""
        if piece:
            self._inbox.add(piece)
        else:
            self._forget(self._stream.fileno())

    def _read_log(self) -> None:
        piece = os.read(self._log_fd, PIECE_BYTES)
        if piece:
            self._tail = (self._tail + piece)[-TAIL_BYTES:]
        else:
            self._forget(self._log_fd)

    def _read_status(self) -> None:
        piece = os.read(self._status_fd, 2 * SIGNED.size)
        self._status += piece
        if piece and len(self._status) < 2 * SIGNED.size:
            return
        self._forget(self._status_fd)
        self._read_what_is_left()
        if piece:
            self._ended = Exited(SIGNED.unpack_from(self._status, SIGNED.size)[0], self._unread)
        else:
            self._ended = Orphaned()

    def _read_what_is_left(self) -> None:
        """A child's last words came before its end, but may be read after it."""
        self.kill()  # what it started could go on printing for ever
        for fd, read in ((self._stream.fileno(), self._read_stream), (self._log_fd, self._read_log)):
            for _ in range(LEFTOVER_PIECES):
                if not select.select([fd], [], [], 0)[0]:
                    break
                read()

    def _forget(self, fd: int) -> None:
        with contextlib.suppress(KeyError):
            self._poll.unregister(fd)
