"""The folder of one pool: which case each worker is running, its temporary files, and its fork servers' logs.

A case is written down before it runs and removed when something came back, so that a parent that dies, by the
kernel's OOM killer or a power cut, leaves on disk what it was doing.  A pool that is closed leaves nothing.
"""

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


class Folder:
    """One pool's folder inside a campaign's."""

    def __init__(self, scratch: str) -> None:
        root = Path(scratch).resolve()  # libraries may change the working directory
        root.mkdir(parents=True, exist_ok=True)
        self.path = Path(mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=root))
        self.running = self.path / RUNNING
        self.temporary = self.path / "tmp"
        self.running.mkdir()
        self.temporary.mkdir()

    @contextmanager
    def of(self, case_json: str, worker: int) -> Generator[None]:
        """While the block runs, the case stands in a file of its worker's, whole or not at all."""
        path, draft = self.running / f"{worker}.json", self.running / f"{worker}.draft"
        draft.write_text(case_json, encoding="ascii")
        draft.replace(path)
        yield
        path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder and all in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def left_behind(scratch: str) -> tuple[Case, ...]:
    """The cases that were running under this folder when their parent died without closing its pool."""
    found: list[Case] = []
    for path in sorted(Path(scratch).glob(f"{PREFIX}*/{RUNNING}/*.json")):
        pid = path.parts[-3].split("-")[1]
        if Path(f"/proc/{pid}").exists():
            continue
        try:
            found.append(wire.from_json(path.read_text(encoding="ascii"), Case))
        except ReplayError:  # of another version of the harness
            continue
    return tuple(found)
