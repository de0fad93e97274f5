"""One chunk in a process of the harness: how a machine of a fleet runs it."""

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import __version__
from harness.errors import HarnessError
from harness.workers.supervision.linux import die_with

ENDING_S = 20.0
"""How long a process that is told to end may take: it reports what it found."""
TAIL_LINES = 8
FINISHED = frozenset({0, 1, 3, 130})
"""Exit statuses of `harness fuzz` after a search; 130 after one that was ended."""


class ChunkFailed(HarnessError):
    """A chunk has no result: its process could not search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOrder:
    """What a machine needs to run one chunk."""

    chunk: str
    """Its JSON text."""
    project: str = ""
    """The folder of the project where the search was divided."""
    options: tuple[str, ...] = ()
    """Options of `harness fuzz` that are no part of the chunk."""
    harness: str = __version__
    """The release that divided the search."""


Started = Callable[["subprocess.Popen[str]"], object]


def run_chunk(order: ChunkOrder, project: Path, send: Callable[[str], object], started: Started | None = None) -> str:
    """Run a chunk in a process, and return the text of its report.  `send` gets each line of its events.

    `started` gets the process, which the caller may end.

    `project` is the folder of the project on this machine.  Libraries inside it are tested from there; reports name
    them as the order does.  The process ends with this one, and with an exception here.

    Raises:
        ChunkFailed: another release of the harness is installed here, or the process could not search.
    """
    if order.harness != __version__:
        raise ChunkFailed(f"kernel-harness {__version__} is installed here, and {order.harness} divided the search")
    there, here = order.project or str(project), str(project)
    with TemporaryDirectory(prefix="kernel-harness-chunk-") as folder:
        chunk, result = Path(folder, "chunk.json"), Path(folder, "report.json")
        chunk.write_text(order.chunk.replace(there, here), encoding="utf-8")
        command = (*_FUZZ, "--chunk", str(chunk), "--json", str(result), "--events", *order.options)
        status, tail = _followed(command, here, lambda line: send(line.replace(here, there)), started)
        if status in FINISHED and result.is_file():
            return result.read_text(encoding="utf-8").replace(here, there)
    raise ChunkFailed(f"harness fuzz ended with status {status}: {' | '.join(tail)}")


_FUZZ = (sys.executable, "-m", "harness.cli", "fuzz")


def _followed(
    command: Sequence[str], folder: str, send: Callable[[str], object], started: Started | None
) -> tuple[int, Sequence[str]]:
    """Run a command in a folder; return its exit status and the last lines of its error stream."""
    tail = deque[str](maxlen=TAIL_LINES)
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        preexec_fn=partial(die_with, os.getpid()),  # noqa: PLW1509 - it only asks the kernel for a signal
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        reading = threading.Thread(target=lambda: tail.extend(map(str.strip, process.stderr or ())), daemon=True)
        reading.start()
        if started is not None:
            started(process)
        try:
            for line in process.stdout:
                send(line)
            return process.wait(), tail
        finally:
            _end(process)
            reading.join(timeout=1)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(timeout=ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()
