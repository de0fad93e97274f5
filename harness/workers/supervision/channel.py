"""What the parent holds of one child: socket, output, flight recorder, exit status, and the means to kill it."""

import contextlib
import os
import select
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Self

from harness.workers.protocol import Frame, FrameKind, Inbox, send
from harness.workers.supervision import linux
from harness.workers.supervision.child_status import ChildStatus
from harness.workers.supervision.recorder_reader import Recorder

TAIL_BYTES = 8192
PIECE_BYTES = 65536
LEFTOVER_PIECES = 256
REAP_LIMIT_S = 10.0
STACK_LIMIT_S = 0.3
MOST_STARVED = 3.0
TICK_S = 1.0
TICKS = 8
"""A wait looks every second how long the child had no core; a short one so many times."""
QUIET_S = 0.03
"""A stack is complete when nothing more has been printed for this long."""


@dataclass(frozen=True, slots=True)
class Exited:
    """The process ended.  `code` is its exit status, or minus the signal that killed it."""

    code: int
    unread: bool
    """It ended before it had read everything that it was sent."""


@dataclass(frozen=True, slots=True)
class Orphaned:
    """The process ended with its fork server, so its exit status is not known."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Nothing came within the limit."""


class Channel:
    """One child, seen from the parent.  One thread waits on it; any thread may kill it."""

    def __init__(
        self, stream: socket.socket, log_fd: int, status: ChildStatus, recorder: Recorder, *, shows_output: bool = False
    ) -> None:
        self.recorder = recorder
        self._shows_output = shows_output
        self.starved_s = 0.0
        """How long the child was ready to run and had no core in the latest wait, as far as it was seen."""
        self._stream = stream
        self._log_fd = log_fd
        self._status = status
        self._inbox = Inbox()
        self._tail = b""
        self._ended: Exited | Orphaned | None = None
        self._unread = False
        self._poll = select.poll()
        for fd in (stream.fileno(), log_fd, status.fd):
            self._poll.register(fd, select.POLLIN)

    @classmethod
    def to_new_child(cls, fork: Callable[[Sequence[int]], int], *, shows_output: bool = False) -> Self:
        """The channel to a child that `fork` makes.

        `fork` passes the open files on to the child (for frames, output and flight recorder) and returns the read end
        of its status pipe.  With `shows_output`, what the child prints also appears on this process's standard output.
        """
        ours, child_end = socket.socketpair()
        log_r, log_w = os.pipe()
        recorder = Recorder()
        try:
            status_fd = fork([child_end.fileno(), log_w, recorder.fd])
        except BaseException:
            ours.close()
            os.close(log_r)
            recorder.close()
            raise
        finally:
            child_end.close()
            os.close(log_w)
            recorder.hand_over()
        return cls(ours, log_r, ChildStatus(status_fd), recorder, shows_output=shows_output)

    @property
    def pid(self) -> int | None:
        """The child's process id; None until the fork server has reported it and a read has seen that."""
        return self._status.pid

    @property
    def log_tail(self) -> str:
        """The end of what the child printed since `forget_log`; it starts with a whole line."""
        whole = self._tail if len(self._tail) < TAIL_BYTES else self._tail.partition(b"\n")[2] or self._tail
        return whole.decode(errors="replace")

    def show_rest(self) -> None:
        """Show what the child has printed so far, if output is shown."""
        if self._shows_output and self._ended is None and select.select([self._log_fd], [], [], 0)[0]:
            self._read_log()

    def forget_log(self) -> None:
        self._tail = b""

    def has_ended(self) -> bool:
        """True if the process is known to have ended; does not wait."""
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
        """Wait for the next frame, or for the reason why there is none.

        Time in which the child has no core does not count, up to `MOST_STARVED` times the limit.
        """
        self.starved_s, before_s = 0.0, None
        begun, tick_s = monotonic(), min(TICK_S, limit_s / TICKS)
        while True:
            if frame := self._inbox.take():
                return frame
            if self._ended is not None:
                return self._ended
            waited_s = monotonic() - begun
            if self.pid is not None and waited_s >= tick_s:  # most answers come sooner, and cost no look at Linux
                now_s = linux.starved_s(self.pid)
                before_s = now_s if before_s is None else before_s
                self.starved_s = min(now_s - before_s, MOST_STARVED * limit_s)
            left = limit_s + self.starved_s - waited_s
            if left <= 0:
                return NoAnswer()
            self._read_ready(min(left, tick_s))

    def wait_for_stack(self) -> None:
        """Have a hanging child print its Python stacks into the log."""
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
        """Kill the child and everything that it started, which may live on after the child has ended."""
        # Once the end is known the group was killed, and Linux may have given the process id to somebody else.
        if self.pid is not None and self._ended is None:
            linux.kill_group(self.pid)

    def close(self) -> None:
        """Kill the child and wait until it is gone.  One that is not forked yet finds its socket closed, and ends."""
        self._read_ready(0)
        self.kill()
        deadline = monotonic() + REAP_LIMIT_S
        while self.pid is not None and self._ended is None and monotonic() < deadline:
            self._read_ready(deadline - monotonic())
            self.kill()  # again: the process id may have arrived only now, or the child may have forked meanwhile
        self._stream.close()
        os.close(self._log_fd)
        self._status.close()
        self.recorder.close()

    def _read_ready(self, limit_s: float) -> None:
        for fd, _ in self._poll.poll(max(0.0, limit_s) * 1000):
            if fd == self._status.fd:
                self._read_status()
            elif fd == self._log_fd:
                self._read_log()
            else:
                self._read_stream()

    def _read_stream(self) -> None:
        try:
            piece = self._stream.recv(PIECE_BYTES)
        except ConnectionResetError:  # the answer of Linux when the other end was closed with something left to read
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
            if self._shows_output:
                # One write for each piece: several children print at the same time.
                sys.stdout.write(piece.decode(errors="replace"))
                sys.stdout.flush()
        else:
            self._forget(self._log_fd)

    def _read_status(self) -> None:
        self._status.read()
        if not self._status.is_final:
            return
        self._forget(self._status.fd)
        self._read_what_is_left()
        code = self._status.exit_code
        self._ended = Orphaned() if code is None else Exited(code, self._unread)

    def _read_what_is_left(self) -> None:
        """Read what the child sent and printed before it ended: `poll` may have reported the end first."""
        if self.pid is not None:
            linux.kill_rest_of_group(self.pid)  # processes that it started could go on printing for ever
        for fd, read in ((self._stream.fileno(), self._read_stream), (self._log_fd, self._read_log)):
            for _ in range(LEFTOVER_PIECES):
                if not select.select([fd], [], [], 0)[0]:
                    break
                read()

    def _forget(self, fd: int) -> None:
        with contextlib.suppress(KeyError):
            self._poll.unregister(fd)
