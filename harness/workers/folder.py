"""The folder of one pool: the case that each worker is running, temporary files, and logs of fork servers.

A case is written down before it runs and removed when its worker has answered.  So a parent that dies, by the OOM
killer or a power cut, leaves its running cases on disk until the next pool starts there.  A pool that is closed leaves
nothing.
"""

import mmap
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness import wire
from harness.errors import ReplayError
from harness.model.case import Case
from harness.workers.owned_folder import OwnedFolder, is_abandoned

PREFIX = "pool-"
RUNNING = "running"
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


class PoolFolder(OwnedFolder):
    """One pool's folder inside a campaign's."""

    def __init__(self, scratch: str) -> None:
        super().__init__(Path(scratch).resolve(), PREFIX)  # libraries may change the working directory
        self.running = self.path / RUNNING
        self.temporary = self.path / "tmp"
        self.running.mkdir()
        self.temporary.mkdir()

    def case_file(self, worker: int) -> "CaseFile":
        return CaseFile(self.running / f"{worker}.json")


def left_behind(scratch: str) -> tuple[Case, ...]:
    """The cases that were running under this folder when their parent died without closing its pool."""
    cases: list[Case] = []
    for path in sorted(Path(scratch).glob(f"{PREFIX}*/{RUNNING}/*.json")):
        if not is_abandoned(path.parents[1], PREFIX):
            continue
        try:
            cases.append(wire.from_json(path.read_text(encoding="ascii").rstrip("\0"), Case))
        except ReplayError:  # written by another version of the harness
            continue
    return tuple(cases)
