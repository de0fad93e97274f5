"""Residents: fork servers that outlive their command, so that the next one finds them warm.

There are two kinds.  An engine's resident has loaded torch, Triton and the engine, as a shared zygote has.  A library's
resident was forked from that one, emulates a device, and has loaded suites and libraries as a device's server has.

A resident listens on a socket.  Each command has a connection, over which it asks for children as the owner of any fork
server does.  A resident first says that it is ready.  It takes no connection once a file that it loaded has changed.
"""

import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, time_ns
from types import ModuleType

from harness.workers.zygote.fork_loop import ForkLoop
from harness.workers.zygote.orders import Residence

LONGEST_ANSWER = 16
"""Bytes with which a resident says that it is ready: its process id."""
RESTRICTIONS = ("Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")
LOG, READY = ".log", ".ready"
"""Endings of the names of files beside the socket: what an engine's resident prints, and the sign that it is ready."""
CREDENTIALS = struct.Struct("3i")

Stamp = tuple[int, int]
"""When a file was changed, in nanoseconds, and its size."""


def take_over(listener: socket.socket) -> None:
    """Have Linux name this process, and no longer that which made the socket, as the peer of new connections."""
    listener.listen()


@contextmanager
def loading(residence: Residence) -> Generator[None]:
    """Have Linux end this process if the block takes too long: a library may wait for ever."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, residence.load_limit_s)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


def stamps(more: Iterable[Path]) -> dict[str, Stamp | None]:
    """Return when the files of all loaded modules were changed, and `more` files.

    With them the folders in which modules were looked for: a file that is new there may be imported instead.
    """
    files = {*map(str, more), *_files_of_modules(tuple(sys.modules.values())), *filter(os.path.isabs, sys.path)}
    return {file: _stamp(file) for file in files}


def have_changed_while_loading(known: Mapping[str, Stamp | None], residence: Residence) -> bool:
    """True if a file may have changed after it was read: it has since the socket was made.

    A folder changes also when Python first keeps compiled modules in it.
    """
    begun, now_ns = _stamp(residence.path), time_ns()
    if begun is None:
        return True
    changed = (file for file, stamp in known.items() if stamp is not None and begun[0] <= stamp[0] <= now_ns)
    return any(os.path.isfile(file) for file in changed)  # noqa: PTH113 - a text


def are_current(known: Mapping[str, Stamp | None]) -> bool:
    """True if all files are as they were."""
    return all(_stamp(file) == stamp for file, stamp in known.items())


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Return process id and user id of the process that made the other end of a Unix socket."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, user, _ = CREDENTIALS.unpack(data)
    return pid, user


def restrictions_of(pid: int) -> list[str]:
    """Return the lines of `/proc` with what a process may do; none if it is gone.

    A process that may do less than the resident could ask it to do the rest.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return [line for line in lines if line.partition(":")[0] in RESTRICTIONS]


class ResidentLoop(ForkLoop):
    """The loop of a resident: it ends when nobody has used it for a while, or when it is no longer current."""

    def __init__(self, listener: socket.socket, residence: Residence, known: Mapping[str, Stamp | None]) -> None:
        """`known` are the files that were loaded."""
        super().__init__()
        self._listener: socket.socket | None = listener
        self._path = Path(residence.path)
        self._inode = _inode(self._path)
        self._known = known
        self._unused_limit_s = residence.unused_limit_s
        os.set_blocking(listener.fileno(), False)
        self._poll.register(listener, select.POLLIN)
        with suppress(OSError):  # a full disk: commands take it for one that loads
            self._path.with_suffix(READY).touch(0o600)

    def run(self) -> None:
        """Serve until the resident is no longer needed, and the last command that uses it has ended."""
        used_s = monotonic()
        while self._controls or self._status_fds or self._listener is not None:
            left_s = max(0.0, self._unused_limit_s - (monotonic() - used_s))
            is_used = bool(self._controls or self._status_fds) or self._listener is None
            events = dict(self._poll.poll(None if is_used else left_s * 1000))
            if not events and not is_used:
                self.close()
            if self._listener is not None and self._listener.fileno() in events:
                self._accept(self._listener)
            if not self._path_is_own():
                self.close()
            self._serve(events)
            used_s = monotonic()

    def close_after_waiting(self) -> None:
        """Take the connections of those who wait already, and no others."""
        while self._listener is not None and select.select([self._listener], [], [], 0)[0]:
            self._accept(self._listener)
        self.close()

    def close(self) -> None:
        """Take no more connections."""
        if self._listener is not None:
            if self._path_is_own():
                self._path.unlink(missing_ok=True)
                for ending in (LOG, READY):
                    self._path.with_suffix(ending).unlink(missing_ok=True)
            self._poll.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:  # the command has gone meanwhile
            return
        pid, user = peer_of(connection)
        if user != os.getuid() or restrictions_of(pid) != restrictions_of(os.getpid()):
            connection.close()
        elif not are_current(self._known):
            self.close()  # first, so that the command makes another resident as soon as it sees this end
            connection.close()
        else:
            with suppress(OSError):
                connection.send(str(os.getpid()).encode())
            self.add(connection)

    def _path_is_own(self) -> bool:
        """True unless somebody removed the file of the socket, or made another."""
        return self._inode is not None and _inode(self._path) == self._inode

    def _not_for_children(self) -> Iterator[socket.socket]:
        yield from super()._not_for_children()
        if self._listener is not None:
            yield self._listener


def _files_of_modules(modules: tuple[ModuleType, ...]) -> Iterator[str]:
    for module in modules:
        with suppress(Exception):  # a module may be any object, and an attribute of it may import others
            names = vars(module)
            yield from (file for file in (names.get("__file__"),) if isinstance(file, str))
            yield from (str(folder) for folder in names.get("__path__") or () if isinstance(folder, str))


def _stamp(file: str) -> Stamp | None:
    try:
        status = os.stat(file)  # noqa: PTH116 - thousands of files
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _inode(path: Path) -> int | None:
    with suppress(OSError):
        return path.stat().st_ino
    return None
