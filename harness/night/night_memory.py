"""The memory of nights: a folder of text files that a CI cache, an artifact or a git branch can carry.

    log/<night>.<run>.jsonl     what one machine did in one night, a line for each thing when it happened
    log/<first>--<last>.<digest>.jsonl   older runs together
    findings/<id>/              each bug, with its smallest case, as in `.harness/findings`
    units/<digest>.json         of an op on a device, promising cases and the executed lines of its kernels

The files of several machines, copied together in any order, are the memory of all: a run is known by its own number,
and counts once wherever its lines are.  A damaged line is left out and named; the findings of a damaged log are still
in `findings`.
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from harness import wire
from harness.documents import files
from harness.documents.finding import FindingDocument
from harness.documents.night_log import ChunkTried, NightEntry, NightSighting, RunBegun, RunEnded
from harness.documents.night_unit import NightUnit
from harness.errors import ReplayError, store_error
from harness.findings import store
from harness.model.finding import Finding
from harness.model.merging import merged

LOG, FINDINGS, UNITS = "log", store.FOLDER.name, "units"
LOGS = "*.jsonl"
MOST_LOGS = 40
"""Files of logs beyond which all but the newest are put together."""
KEPT_LOGS = 10
"""The newest files, which stay by themselves."""
MOST_NIGHTS = 400
"""Nights whose chunks are remembered one by one.  Of older ones the findings stay, and the sums."""
MOST_CASE_LISTS = 4
"""Lists of cases of one finding: each night may have a smallest case of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightRun:
    """What one machine did in one night."""

    night: str
    number: str
    entries: tuple[NightEntry, ...]
    """In the order in which they were written."""

    @property
    def begun(self) -> RunBegun | None:
        return next((entry.begun for entry in self.entries if entry.begun), None)

    @property
    def began_at(self) -> str:
        return self.entries[0].at

    @property
    def ended(self) -> RunEnded | None:
        """None if the run was killed."""
        return next((entry.ended for entry in reversed(self.entries) if entry.ended), None)

    @property
    def tried(self) -> tuple[ChunkTried, ...]:
        return tuple(entry.tried for entry in self.entries if entry.tried)

    @property
    def seen(self) -> tuple[NightSighting, ...]:
        """The latest sighting of each finding by each search on each device."""
        latest = {
            (entry.seen.search, entry.seen.device, entry.seen.finding): entry.seen
            for entry in self.entries
            if entry.seen
        }
        absorbed = {
            (sighting.search, sighting.device, symptom) for sighting in latest.values() for symptom in sighting.symptoms
        }
        return tuple(sighting for key, sighting in latest.items() if key not in absorbed)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightMemory:
    """What a folder remembers."""

    folder: Path
    runs: tuple[NightRun, ...] = ()
    """In the order in which they began."""
    findings: Mapping[str, Finding] = field(default_factory=dict[str, Finding])
    """The bugs of all nights, by id."""
    units: Mapping[tuple[str, str, str], NightUnit] = field(default_factory=dict[tuple[str, str, str], NightUnit])
    """By search, op and device."""
    damaged: tuple[str, ...] = ()
    """A message for each file that cannot be read whole."""

    @property
    def nights(self) -> tuple[str, ...]:
        """The names of the nights, the oldest first."""
        return tuple(dict.fromkeys(run.night for run in self.runs))


class RunLog:
    """Writes the log of a run.  Each line is on the disk when the call returns."""

    def __init__(self, folder: Path, night: str) -> None:
        """Begin a log in this folder.

        Raises:
            StoreError: it cannot be written.
        """
        self.folder = folder
        self.night, self.run = night, secrets.token_hex(4)
        self.path = folder / LOG / f"{night}.{self.run}.jsonl"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise store_error(error, self.path.parent) from None

    def write(self, happened: RunBegun | ChunkTried | NightSighting | RunEnded) -> None:
        """Add a line.

        Raises:
            StoreError: the disk is full, or the folder is gone.  The line may be cut off; later ones are whole again.
        """
        entry = NightEntry(night=self.night, run=self.run, at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        match happened:
            case RunBegun():
                entry = replace(entry, begun=happened)
            case ChunkTried():
                entry = replace(entry, tried=happened)
            case NightSighting():
                entry = replace(entry, seen=happened)
            case RunEnded():
                entry = replace(entry, ended=happened)
        try:
            _append(line_of(entry), self.path)
        except OSError as error:
            raise store_error(error, self.path) from None


def line_of(entry: NightEntry) -> str:
    """Return the entry as one line of JSON, without what has its default."""
    plain = files.plain_of(entry)
    return json.dumps({name: value for name, value in plain.items() if value is not None}, allow_nan=False) + "\n"


def _append(line: str, path: Path) -> None:
    """Append a line, after a line break if the last line was cut off."""
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = f"\n{line}"
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def keep_finding(finding: Finding, folder: Path, text: str, versions: Mapping[str, str]) -> None:
    """Keep a bug in the memory, with its smallest case and a bounded number of others.

    Raises:
        StoreError: it cannot be written.
    """
    place = folder / FINDINGS
    try:
        with store.locked(place):
            written = store.write(replace(finding, cases=(finding.case,)), place, text, versions)
            lists = sorted(written.glob(store.CASES), key=lambda path: path.stat().st_mtime_ns)
            for path in lists[:-MOST_CASE_LISTS]:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise store_error(error, place) from None


def keep_unit(unit: NightUnit, folder: Path) -> None:
    """Keep what a chunk found out about an op on a device, with what is known of the same sources.

    Raises:
        StoreError: it cannot be written.
    """
    path = folder / UNITS / f"{_name_of(unit)}.json"
    with suppress(ReplayError):  # there is none yet, or it is damaged
        known = files.read(path, NightUnit)
        if (known.digest, known.release) == (unit.digest, unit.release):
            unit = merged([known, unit])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(unit, path)
    except OSError as error:
        raise store_error(error, path) from None


def _name_of(unit: NightUnit) -> str:
    return hashlib.sha256(f"{unit.search}\n{unit.op}\n{unit.device}".encode()).hexdigest()[:16]


def _units(folder: Path, damaged: list[str]) -> Iterator[NightUnit]:
    for path in sorted(folder.glob("[!.]*.json")):
        try:
            yield files.read(path, NightUnit)
        except ReplayError as error:
            damaged.append(str(error))


def read(folder: Path) -> NightMemory:
    """Read a memory.  A folder that does not exist remembers nothing."""
    damaged: list[str] = []
    runs: dict[str, list[NightEntry]] = {}
    for path in sorted((folder / LOG).glob(LOGS)):
        by_run: dict[str, list[NightEntry]] = {}
        for entry in _entries(path, damaged):
            by_run.setdefault(entry.run, []).append(entry)
        for run, entries in by_run.items():  # the same run may be in two files, one of which was cut off
            if len(entries) > len(runs.get(run, ())):
                runs[run] = entries
    kept = store.load(folder / FINDINGS, with_cases=False) if (folder / FINDINGS).is_dir() else None
    ordered = sorted(runs.items(), key=lambda item: (item[1][0].at, item[0]))
    units = tuple(_units(folder / UNITS, damaged))
    return NightMemory(
        folder=folder,
        runs=tuple(NightRun(night=some[0].night, number=run, entries=tuple(some)) for run, some in ordered),
        findings={bug.finding.id: bug.finding for bug in kept.bugs} if kept else {},
        units={(unit.search, unit.op, unit.device): unit for unit in units},
        damaged=(*damaged, *(kept.damaged if kept else ())),
    )


def _entries(path: Path, damaged: list[str]) -> Iterator[NightEntry]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        damaged.append(f"{path}: {error.strerror}")
        return
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield files.loads(line, NightEntry)
        except ReplayError as error:
            damaged.append(f"{path}, line {number}: {error}")


def merge(folder: Path, others: Iterable[Path]) -> None:
    """Add to a memory what other folders remember.  What is there already stays; many logs are put together.

    Raises:
        StoreError: it cannot be written.
    """
    try:
        for other in others:
            for path in sorted((other / LOG).glob(LOGS)):
                _copy_log(path, folder / LOG / path.name)
            _copy_findings(other / FINDINGS, folder / FINDINGS)
            _copy_units(other / UNITS, folder / UNITS)
    except OSError as error:
        raise store_error(error, folder) from None
    # A CI system keeps this memory alone: that of each machine, which `harness night` compacts, is a copy.
    if len([*(folder / LOG).glob(LOGS)]) > MOST_LOGS:
        compact(read(folder))


def _copy_log(path: Path, target: Path) -> None:
    """Copy a log, unless the target has as much of it: one of two may have been cut off."""
    if target.exists() and target.stat().st_size >= path.stat().st_size:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    wire.write_bytes([path.read_bytes()], target)


def _copy_findings(other: Path, place: Path) -> None:
    for document in sorted(other.glob(f"[!.]*/{store.FINDING}")):
        target = place / document.parent.name
        theirs, ours = _finding_in(document), _finding_in(target / store.FINDING)
        if theirs is not None and (ours is None or store.rank(theirs) < store.rank(ours)):
            shutil.copytree(document.parent, target, dirs_exist_ok=True)


def _copy_units(other: Path, place: Path) -> None:
    """Copy the units that the place lacks, and those of which the other folder knows more launches."""
    known = {(unit.search, unit.op, unit.device): unit for unit in _units(place, [])}
    for unit in _units(other, []):
        here = known.get((unit.search, unit.op, unit.device))
        if here is None or _launches(unit) > _launches(here):
            place.mkdir(parents=True, exist_ok=True)
            files.write(unit, place / f"{_name_of(unit)}.json")


def _launches(unit: NightUnit) -> int:
    return sum(count for row in unit.kernel_lines for count in row.launches.values())


def _finding_in(document: Path) -> Finding | None:
    """Return the finding; None if there is none, or the file is damaged."""
    with suppress(ReplayError):
        return files.read(document, FindingDocument).finding
    return None


def compact(memory: NightMemory) -> None:
    """Put old logs together once there are many, and forget the single chunks of very old nights.

    The new file is whole before the old ones go, and a run counts once wherever it is: a process that is killed between
    does no harm, and neither do two that do it at once.

    Raises:
        StoreError: it cannot be written.
    """
    folder = memory.folder / LOG
    paths = sorted(folder.glob(LOGS), key=lambda path: (path.stat().st_mtime_ns, path.name))
    if len(paths) <= MOST_LOGS:
        return
    old = paths[:-KEPT_LOGS]
    remembered = {*memory.nights[-MOST_NIGHTS:]}
    numbers = {entry.run for path in old for entry in _entries(path, [])}
    runs = [run for run in memory.runs if run.number in numbers]
    lines = [line_of(entry) for run in runs for entry in _thinned(run, remembered)]
    text = "".join(lines)
    if not runs:
        return
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    target = folder / f"{runs[0].night}--{runs[-1].night}.{digest}.jsonl"
    try:
        files.write_text(text, target)
        for path in old:
            if path != target:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise store_error(error, folder) from None


def _thinned(run: NightRun, remembered: set[str]) -> Iterator[NightEntry]:
    """Return the entries of a run that are worth keeping: of sightings the latest, of a very old run no chunks."""
    kept = {id(sighting) for sighting in run.seen}
    for entry in run.entries:
        if entry.seen is not None and id(entry.seen) not in kept:
            continue
        if entry.tried is not None and run.night not in remembered:
            continue
        yield entry
