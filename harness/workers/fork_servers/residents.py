"""Residents as a command holds them: it finds one that an earlier command left, or starts one that the next will find.

The sockets lie in a folder that belongs to the user alone.  The name of a socket is a digest of all that a command
cannot change in a process that began for another one: if any of it differs, so does the resident.

Whatever goes wrong with a resident, a command goes on with a zygote of its own.
"""

import hashlib
import json
import os
import resource
import select
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import SubprocessError
from time import time

from filelock import FileLock, Timeout

from harness import __version__
from harness.settings import Settings
from harness.workers.fork_servers.fork_server import (
    Forking,
    file_of,
    python_arguments,
    search_path,
)
from harness.workers.supervision.linux import is_stopped
from harness.workers.zygote.orders import START_RESIDENT, Residence, ResidentOrders
from harness.workers.zygote.process_context import ProcessContext
from harness.workers.zygote.resident import LOG, LONGEST_ANSWER, READY, peer_of, restrictions_of

FOLDER = "kernel-harness-residents"
LONGEST_PATH = 100
"""A socket's path may have 107 bytes."""
MOST_RESIDENTS = 12
"""Sockets in the folder: a command that finds as many starts no other resident."""
ATTEMPTS = 2
ANSWER_LIMIT_S = 1.0
"""The longest wait for a resident, or for another command that looks for one."""
LOCK = "lock"
LOAD_LIMIT_S = 180.0
OTHERS_LOAD_LIMIT_S = 15.0
"""The longest wait for a resident that another command has started, and that still loads."""
OWN_WORDS = frozenset({"HARNESS", "PYTEST"})
"""What the names of variables begin with that neither torch nor Triton reads."""


class NoResident(Exception):
    """There is no resident to be had; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundResident:
    """A resident of this user."""

    pid: int
    """Of the command that asked for it until its process begins."""
    is_ready: bool
    """False while it loads, and while it is stopped."""


class Residents:
    """The residents that this process may use."""

    def __init__(self, folder: Path, unused_limit_s: float) -> None:
        """`folder` is that of the sockets, from `residents_folder`."""
        self._folder = folder
        self._unused_limit_s = unused_limit_s

    @classmethod
    def allowed_by(cls, settings: Settings) -> "Residents | None":
        """Return the residents that the settings allow; None if they allow none, or if no folder is safe."""
        if not settings.resident_minutes or (folder := residents_folder(settings.runtime)) is None:
            return None
        return cls(folder, 60 * settings.resident_minutes)

    def of_engine(self, engine: str) -> socket.socket:
        """A connection to the resident that has loaded an engine; it is started if there is none.

        Raises:
            NoResident: it cannot be reached.
        """

        def start(listener: int, path: Path) -> None:
            orders = ResidentOrders(engine=engine, residence=self._residence(path))
            _start_python(listener, json.dumps(asdict(orders)).encode(), path.with_suffix(LOG))

        return self._connected(_digest(engine, *_facts()), start)

    def of_library(self, key: Sequence[object], start: Callable[[int, Residence], None]) -> socket.socket:
        """A connection to a resident that has loaded libraries; `start` gets a listening socket for a new one.

        Raises:
            NoResident: it cannot be reached.
        """
        return self._connected(_digest(*key, *_facts()), lambda listener, path: start(listener, self._residence(path)))

    def _residence(self, path: Path) -> Residence:
        return Residence(path=str(path), unused_limit_s=self._unused_limit_s, load_limit_s=LOAD_LIMIT_S)

    def _connected(self, name: str, start: Callable[[int, Path], None]) -> socket.socket:
        path = self._folder / f"{name}.sock"
        if len(os.fsencode(path)) > LONGEST_PATH:
            raise NoResident(f"{self._folder} has too long a name for sockets")
        for _ in range(ATTEMPTS):
            try:
                connection, is_new = self._connected_or_started(path, start)
                if is_new or _is_willing(connection, path):
                    return connection
            except (OSError, SubprocessError, Timeout) as error:
                raise NoResident(f"{path}: {error}") from None
            connection.close()  # what it has loaded has changed
        raise NoResident(f"{path}: it takes no connection")

    def _connected_or_started(self, path: Path, start: Callable[[int, Path], None]) -> tuple[socket.socket, bool]:
        with FileLock(self._folder / LOCK, timeout=ANSWER_LIMIT_S, mode=0o600):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                try:
                    _connect(connection, str(path))
                except (FileNotFoundError, ConnectionRefusedError):  # none, or one that was killed
                    path.unlink(missing_ok=True)
                    path.with_suffix(READY).unlink(missing_ok=True)
                else:
                    return connection, False
                _refuse_too_many(self._folder)
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
                    listener.bind(str(path))
                    listener.listen()
                    start(listener.fileno(), path)
                    connection.connect(str(path))
            except BaseException:
                connection.close()
                raise
            return connection, True


class ResidentServer(Forking):
    """A resident, or what does its work where there is none."""

    def __init__(self, connect: Callable[[], socket.socket], otherwise: Callable[[], Forking]) -> None:
        """`connect` may raise `NoResident`; `otherwise` is called once, when there is no resident, or no longer."""
        super().__init__()
        self._connect: Callable[[], socket.socket] | None = connect
        self._connection: socket.socket | None = None
        self._otherwise = otherwise
        self._other: Forking | None = None

    @property
    def is_connected(self) -> bool:
        """True once it has a connection, for as long as that holds."""
        return self._connection is not None

    @property
    def has_stalled(self) -> bool:
        """True if it is stopped, or loads for another command for too long."""
        connection = self._connection
        return connection is not None and _has_stalled(connection)

    def start(self) -> None:
        """Connect before the first request."""
        with self._lock:
            self._connected()

    def close(self) -> None:
        """Give up the resident, which stays."""
        with self._lock:
            self._connect = None
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _request(self, main: str, fds: Sequence[int]) -> None:
        if connection := self._connected():
            try:
                socket.send_fds(connection, [main.encode()], fds)
            except OSError:  # it was killed
                connection.close()
                self._connection = None
            else:
                return
        if self._other is None:
            self._other = self._otherwise()
        self._other.request(main, fds)

    def _connected(self) -> socket.socket | None:
        connect, self._connect = self._connect, None
        if connect is not None:
            with suppress(NoResident):
                self._connection = connect()
        return self._connection


def residents_folder(runtime: Path | None) -> Path | None:
    """Return the folder of the user's residents, and make it if need be; None if another user has its name.

    It lies in the runtime folder or, if that is none or another user's, in the folder for temporary files.
    """
    try:
        is_own = runtime is not None and runtime.stat().st_uid == os.getuid()
        folder = runtime / FOLDER if runtime and is_own else Path(tempfile.gettempdir(), f"{FOLDER}-{os.getuid()}")
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return None
        folder.chmod(0o700)
    except OSError:
        return None
    return folder


def found_residents(folder: Path) -> Iterator[FoundResident]:
    """Yield the residents that live."""
    for path in sorted(folder.glob("*.sock")):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection, suppress(OSError):
            _connect(connection, str(path))
            pid, _ = peer_of(connection)
            if not path.with_suffix(READY).exists() or not select.select([connection], [], [], ANSWER_LIMIT_S)[0]:
                yield FoundResident(pid=pid, is_ready=False)
            elif connection.recv(LONGEST_ANSWER):
                yield FoundResident(pid=pid, is_ready=True)


def _connect(connection: socket.socket, path: str) -> None:
    """Connect at once, or raise: a process that is stopped may have a long queue of connections."""
    connection.settimeout(0)
    try:
        connection.connect(path)
    finally:
        connection.settimeout(None)


def _has_stalled(connection: socket.socket) -> bool:
    """True if a resident is stopped, or loads for another command for too long."""
    try:
        started_here = peer_of(connection)[0] == os.getpid()
        path = connection.getpeername()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            _connect(probe, path)
            pid, _ = peer_of(probe)
        age_s = time() - Path(path).stat().st_mtime
    except BlockingIOError:  # many wait for it
        return True
    except OSError:  # it has ended, or is about to, or this process has given it up
        return False
    is_late = not started_here and age_s > OTHERS_LOAD_LIMIT_S and not Path(path).with_suffix(READY).exists()
    return is_late or is_stopped(pid)


def _is_willing(connection: socket.socket, path: Path) -> bool:
    """False if the resident belongs to another user, has turned the connection down, or hangs.

    One that loads answers later, and is taken for willing for a while.
    """
    if peer_of(connection)[1] != os.getuid():
        return False
    if not path.with_suffix(READY).exists():
        return not _has_stalled(connection)
    try:
        answers, _, _ = select.select([connection], [], [], ANSWER_LIMIT_S)
        return bool(answers and connection.recv(LONGEST_ANSWER))
    except ConnectionResetError:
        return False


def _refuse_too_many(folder: Path) -> None:
    if len(list(folder.glob("*.sock"))) >= MOST_RESIDENTS:
        _remove_dead(folder)
    if len(list(folder.glob("*.sock"))) >= MOST_RESIDENTS:
        raise NoResident(f"there are {MOST_RESIDENTS} residents already")


def _remove_dead(folder: Path) -> None:
    for path in folder.glob("*.sock"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            try:
                _connect(connection, str(path))
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except OSError:
                continue


def _start_python(listener: int, orders: bytes, log: Path) -> None:
    """Start an engine's resident, whose parent ends at once."""
    orders_fd = file_of(orders)
    log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    files = (listener, orders_fd, log_fd)
    try:
        # A process that this one has started, and does not wait for, would stay a zombie.
        subprocess.run(
            [sys.executable, "-S", "-c", DETACHING, sys.executable, *python_arguments(START_RESIDENT, files)],
            stdin=subprocess.DEVNULL,
            stdout=log_fd,
            stderr=log_fd,
            pass_fds=files,
            cwd="/",
            check=True,
        )
    finally:
        os.close(orders_fd)
        os.close(log_fd)


DETACHING = "import os, sys; os.fork() and os._exit(0); os.execv(sys.argv[1], sys.argv[1:])"


def _digest(*facts: object) -> str:
    return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()[:20]


def _facts() -> Iterator[object]:
    """Yield what a process cannot take over after a fork, and what torch and Triton read while they are imported."""
    yield __version__, str(Path(__file__).resolve())
    yield sys.executable, sys.prefix, sys.version, [*sys.flags], sys.warnoptions, search_path()
    yield [
        pair
        for pair in ProcessContext.of_this_process().lasting_environment
        if pair[0].partition("_")[0] not in OWN_WORDS
    ]
    yield [(path.name, str(path.readlink())) for path in sorted(Path("/proc/self/ns").iterdir())]
    yield [resource.getrlimit(number) for name, number in sorted(vars(resource).items()) if name.startswith("RLIMIT_")]
    yield os.getpriority(os.PRIO_PROCESS, 0)
    yield _text("/proc/self/cgroup"), _text("/proc/self/attr/current"), _text("/proc/self/oom_score_adj")
    yield restrictions_of(os.getpid())


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
