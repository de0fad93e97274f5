"""The status pipe of a forked child: its fork server writes the process id, and the exit code when the child ends."""

import os
import select
import struct
from contextlib import suppress

NUMBER = struct.Struct("q")


def report(status_fd: int, number: int) -> None:
    """Write a process id or an exit code, in the fork server; a parent that is gone needs neither."""
    with suppress(BrokenPipeError):
        os.write(status_fd, NUMBER.pack(number))


class ChildStatus:
    """The parent's end of a status pipe."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._received = b""
        self._is_closed_by_server = False

    @property
    def pid(self) -> int | None:
        """The child's process id; None until the fork server has forked it."""
        return NUMBER.unpack_from(self._received)[0] if len(self._received) >= NUMBER.size else None

    @property
    def exit_code(self) -> int | None:
        """The child's exit status, or minus the signal that killed it; None while it is not known."""
        return NUMBER.unpack_from(self._received, NUMBER.size)[0] if self._is_complete else None

    @property
    def is_final(self) -> bool:
        """True once the child has ended, or its fork server has: then the exit code stays unknown."""
        return self._is_complete or self._is_closed_by_server

    @property
    def is_orphaned(self) -> bool:
        """True if the exit code stays unknown."""
        return self._is_closed_by_server and not self._is_complete

    def read(self, limit_s: float | None = 0.0) -> None:
        """Read what the fork server has reported; waits up to the limit for it, without end where that is None."""
        if self.is_final or not select.select([self.fd], [], [], limit_s)[0]:
            return
        piece = os.read(self.fd, 2 * NUMBER.size - len(self._received))
        self._received += piece
        self._is_closed_by_server = not piece

    def close(self) -> None:
        os.close(self.fd)

    @property
    def _is_complete(self) -> bool:
        return len(self._received) == 2 * NUMBER.size
