"""One search for one bug: a `harness fuzz` process on its last bad release, until a stored finding shows the bug.

The process starts in an empty folder.  So no earlier search helps it, and it compiles every kernel.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.documents import files
from harness.documents.finding import FindingDocument
from harness.errors import ReplayError
from harness.findings import store
from studies.corpus.bugs import HistoricalBug

ROOT = Path(__file__).resolve().parents[2]
POLL_S = 0.05
END_S = 20.0
"""How long an interrupted search may take to end, before its process group is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SightingLimits:
    """The limits and settings of each search."""

    cases: int
    seconds: float
    """Wall-clock seconds since the command was started."""
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One search for one bug under one seed."""

    bug: str
    """The id."""
    seed: int
    limits: SightingLimits
    seconds: float | None = None
    """From the start of the command until the finding was stored; None if the bug was not sighted."""
    search_seconds: float | None = None
    """As `FirstSeen.seconds`."""
    case_number: int | None = None
    """As `FirstSeen.case_number`."""
    signature: str = ""
    ended: str = ""
    """Why there was no sighting: `time limit`, `exit status 0`."""


def attempt(bug: HistoricalBug, seed: int, limits: SightingLimits) -> Attempt:
    """Search for the bug until it is sighted, the process ends, or the time is over."""
    with TemporaryDirectory(prefix="sightings-") as folder:
        began = time.time()  # file times are wall-clock times
        process = subprocess.Popen(
            command(bug, seed, limits),
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return _watch(process, Path(folder), bug, Attempt(bug=bug.id, seed=seed, limits=limits), began)
        finally:
            _end(process)


def command(bug: HistoricalBug, seed: int, limits: SightingLimits) -> list[str]:
    """Return the command line of the search."""
    return [
        *(sys.executable, "-m", "harness.cli", "fuzz", str(ROOT / bug.suite)),
        *(argument for library in bug.release(bug.last_bad) for argument in ("--with", library)),
        *(argument for op in bug.ops for argument in ("--op", op)),
        *(argument for name, values in bug.environment.items() for argument in ("--env", f"{name}={','.join(values)}")),
        *("--device", bug.device, "--cases", str(limits.cases), "--seed", str(seed)),
        *("--processes", str(limits.processes)),
    ]


def _watch(
    process: "subprocess.Popen[bytes]", folder: Path, bug: HistoricalBug, unsighted: Attempt, began: float
) -> Attempt:
    while True:
        # What the process stored last is read after it has ended.
        status, is_late = process.poll(), time.time() - began >= unsighted.limits.seconds
        sightings = [found for found in _sightings(folder, bug, unsighted, began) if _in_time(found)]
        if sightings:
            return min(sightings, key=lambda found: found.seconds or 0.0)
        if status is not None:
            return replace(unsighted, ended=f"exit status {status}")
        if is_late:
            return replace(unsighted, ended="time limit")
        time.sleep(POLL_S)


def _in_time(found: Attempt) -> bool:
    return found.seconds is not None and found.seconds <= found.limits.seconds


def _sightings(folder: Path, bug: HistoricalBug, unsighted: Attempt, began: float) -> Iterator[Attempt]:
    """Yield a sighting for each stored finding that shows the bug."""
    for path in (folder / store.FOLDER).glob(f"*/{store.FINDING}"):
        try:
            stored_at = path.stat().st_mtime
            finding = files.read(path, FindingDocument).finding
        except (OSError, ReplayError):  # its folder was replaced meanwhile
            continue
        first = finding.first_seen
        if first is not None and bug.is_shown_by(finding.fail.signature):
            yield replace(
                unsighted,
                seconds=round(stored_at - began, 2),
                search_seconds=first.seconds,
                case_number=first.case_number,
                signature=str(finding.fail.signature),
            )


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Interrupt the search, and kill its group if it does not end."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
