"""The folder of one pool: the case that each worker is running, temporary files, and logs of fork servers.

A case is written down before it runs and removed when its worker has answered.  So a parent that dies, by the OOM
killer or a power cut, leaves its running cases on disk until the next pool starts there.  A pool that is closed leaves
nothing.
"""

import fcntl
import mmap
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from harness import wire
from harness.errors import ReplayError
from harness.model.case import Case

PREFIX = "pool-"
RUNNING = "running"
LOCK = "owner.lock"
"""Held as long as the folder's owner lives.  Absent on file systems without locks, and in folders of old releases."""
CASE_FILE_BYTES = 1 << 14
"""Many times the length of a case's text."""


class CaseFile:
    """The file of one worker: the case that it is running, then zeros.  Mapped as long as the worker lives.

    A memory map, because a system call would let other threads run first while the worker waits for its case.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            # A full disk raises here.  A store to a page of a sparse file would end this process by SIGBUS.
            os.posix_fallocate(fd, 0, CASE_FILE_BYTES)
            self._content = mmap.mmap(fd, 0)
        finally:
            os.close(fd)

    @contextmanager
    def holding(self, case_json: str) -> Generator[None]:
        """Keep the case in the file while the block runs.  A case that is too long is cut and cannot be read again."""
        text = case_json.encode("ascii")[:CASE_FILE_BYTES]
        self._content[: len(text)] = text
        yield  # no `finally`: after an error the worker is closed, and the file removed with it
        self._content[: len(text)] = bytes(len(text))

    def close(self) -> None:
        """Remove the file of a worker that is gone."""
        if not self._content.closed:
            self._content.close()
            with suppress(FileNotFoundError, NotADirectoryError):  # a person may have removed the folder
                self._path.unlink()


class PoolFolder:
    """One pool's folder inside a campaign's.  Making it removes those of pools whose process is gone."""

    def __init__(self, scratch: str) -> None:
        root = Path(scratch).resolve()  # libraries may change the working directory
        root.mkdir(parents=True, exist_ok=True)
        for other in root.glob(f"{PREFIX}*"):
            if _is_abandoned(other):
                shutil.rmtree(other, ignore_errors=True)
        self.path = Path(mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=root))
        self._lock = _lock(self.path)
        self.running = self.path / RUNNING
        self.temporary = self.path / "tmp"
        self.running.mkdir()
        self.temporary.mkdir()

    def case_file(self, worker: int) -> "CaseFile":
        return CaseFile(self.running / f"{worker}.json")

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def left_behind(scratch: str) -> tuple[Case, ...]:
    """The cases that were running under this folder when their parent died without closing its pool."""
    cases: list[Case] = []
    for path in sorted(Path(scratch).glob(f"{PREFIX}*/{RUNNING}/*.json")):
        if not _is_abandoned(path.parents[1]):
            continue
        try:
            cases.append(wire.from_json(path.read_text(encoding="ascii").rstrip("\0"), Case))
        except ReplayError:  # written by another version of the harness
            continue
    return tuple(cases)


def _lock(folder: Path) -> int | None:
    """The open, locked file of a folder; None on a file system without locks.

    Linux releases the lock when this process ends, however it ends.
    """
    # Locked under another name: a file that had its name before its lock would look abandoned in between.
    draft = folder / f"{LOCK}.draft"
    fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError:
        os.close(fd)
        return None
    draft.rename(folder / LOCK)
    return fd


def _is_abandoned(folder: Path) -> bool:
    """True if the process that made the folder is gone, by its lock, or else by the process id in its name.

    The lock goes first: process ids are used again, and those of another container mean nothing here.
    """
    try:
        fd = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        return pid.isdecimal() and not Path("/proc", pid).exists()
    except OSError:  # another user's, or no folder
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
