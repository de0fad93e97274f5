"""The folder of one pool: which case each worker is running, its temporary files, and its fork servers' logs.

A case is written down before it runs and removed when something came back, so that a parent that dies, by the
kernel's OOM killer or a power cut, leaves on disk what it was doing, until the next pool begins there.  A pool that is
closed leaves nothing.
"""

import fcntl
import mmap
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from harness import wire
from harness.errors import ReplayError
from harness.model.case import Case

PREFIX = "pool-"
RUNNING = "running"
LOCK = "owner.lock"
"""Held as long as the folder's owner lives.  Of a file system without locks there is none, nor of earlier releases."""
SLOT_BYTES = 1 << 14
"""Many times as long as a case's text."""


class CaseFile:
    """The file of one worker: the case that it is running, or nothing, and zeros.  Mapped as long as the worker lives.

    No system call, in which this thread would let others go first while the worker waits for its case.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, SLOT_BYTES)  # a full disk is told now, and kills nobody later
            self._content = mmap.mmap(fd, 0)
        finally:
            os.close(fd)

    @contextmanager
    def holding(self, case_json: str) -> Generator[None]:
        """While the block runs, the case stands in the file; of one too long for it, nothing that can be read again."""
        text = case_json.encode("ascii")[:SLOT_BYTES]
        self._content[: len(text)] = text
        yield
        self._content[: len(text)] = bytes(len(text))

    def close(self) -> None:
        """The worker is gone; a case that it did not come back from was told by its run."""
        if not self._content.closed:
            self._content.close()
            self._path.unlink(missing_ok=True)


class PoolFolder:
    """One pool's folder inside a campaign's; what pools left there whose process is gone, goes when it is made."""

    def __init__(self, scratch: str) -> None:
        root = Path(scratch).resolve()  # libraries may change the working directory
        root.mkdir(parents=True, exist_ok=True)
        for other in root.glob(f"{PREFIX}*"):
            if _is_abandoned(other):
                shutil.rmtree(other, ignore_errors=True)
        self.path = Path(mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=root))
        self._lock = _locked(self.path)
        self.running = self.path / RUNNING
        self.temporary = self.path / "tmp"
        self.running.mkdir()
        self.temporary.mkdir()

    def slot(self, worker: int) -> "CaseFile":
        """Where a worker's case is written down."""
        return CaseFile(self.running / f"{worker}.json")

    def remove(self) -> None:
        """Remove the folder and all in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def left_behind(scratch: str) -> tuple[Case, ...]:
    """The cases that were running under this folder when their parent died without closing its pool."""
    found: list[Case] = []
    for path in sorted(Path(scratch).glob(f"{PREFIX}*/{RUNNING}/*.json")):
        if not _is_abandoned(path.parents[1]):
            continue
        try:
            found.append(wire.from_json(path.read_text(encoding="ascii").rstrip("\0"), Case))
        except ReplayError:  # of another version of the harness
            continue
    return tuple(found)


def _locked(folder: Path) -> int | None:
    """The open file whose lock ends with this process, however that ends; it is never in its place without the lock."""
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
    """Whether the process that made it is gone, by its lock, else by the number in its name.

    Numbers of processes are used again, and those of another container mean nothing here.
    """
    try:
        fd = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        number = folder.name.removeprefix(PREFIX).partition("-")[0]
        return number.isdecimal() and not Path("/proc", number).exists()
    except OSError:  # another user's, or no folder
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
