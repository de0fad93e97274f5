"""A folder for temporary files that goes when its owner has gone, even if nothing could remove it then."""

import fcntl
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

LOCK = "owner.lock"
"""Held as long as the folder's owner lives.  Absent on file systems without locks, and in folders of old releases."""


class OwnedFolder:
    """A folder of this process.  Making it removes those of its kind whose process is gone."""

    def __init__(self, root: Path, prefix: str) -> None:
        """Make a folder in `root`, which is made too.  `prefix` begins the names of all folders of the kind."""
        root.mkdir(parents=True, exist_ok=True)
        for other in root.glob(f"{prefix}*"):
            if is_abandoned(other, prefix):
                shutil.rmtree(other, ignore_errors=True)
        self.path = Path(mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=root))
        self._lock = _lock(self.path)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


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


def is_abandoned(folder: Path, prefix: str) -> bool:
    """True if the process that made the folder is gone, by its lock, or else by the process id in its name.

    The lock goes first: process ids are used again, and those of another container mean nothing here.
    """
    try:
        fd = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        pid = folder.name.removeprefix(prefix).partition("-")[0]
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
