"""The store of findings: a folder for each under `.harness/findings`, of text and JSON, which a person can read too.

    <id>/finding.json   what `harness replay` reads
    <id>/finding.txt    the finding as printed
    <id>/cases-*.jsonl  the cases that showed it, one a line; a file for each smallest case

Other commands add their results to these folders: a reproducer, the region.  A folder is named by the signature, so a
bug has one folder, whichever search, machine or checkout found it.  A later search replaces the finding, unless that
was confirmed and the later one is not; the cases of all searches stay.

Several searches may write to one store at the same time.
"""

import re
import shutil
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from pathlib import Path

from filelock import FileLock, Timeout

from harness import wire
from harness.documents import files
from harness.documents.finding import FindingDocument, finding_document
from harness.errors import ReplayError, UsageError, unknown
from harness.model.case import HARNESS_FOLDER, Case
from harness.model.finding import Finding
from harness.wire import to_json

FOLDER = HARNESS_FOLDER / "findings"
COMPLETE = re.compile(r"(\{.*\}\n?)*")
"""Lines that each hold an object, as far as their ends show."""
FINDING, TEXT = "finding.json", "finding.txt"
CASES = "cases-*.jsonl"
"""One for each smallest case, so that copying the folder of another machine loses no case."""
LOCK = ".lock"
"""The ending of the lock's name, next to the folder: inside are findings alone."""
LOCK_S = 10.0
"""The longest wait for other searches, which hold the lock for milliseconds.  A stopped one would hold it for ever."""
POLL_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One bug in the store: the finding with the smallest case, and what others with its signature add."""

    finding: Finding
    """With the cases of all of them."""
    folder: Path
    versions: Mapping[str, str]
    other_folders: tuple[Path, ...] = ()
    """Folders of findings with the same signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The content of a folder of findings."""

    bugs: tuple[Stored, ...]
    damaged: tuple[str, ...]
    """A message for each folder that cannot be read."""


def save(
    findings: Iterable[Finding], folder: Path, text_of: Callable[[Finding], str], versions: Mapping[str, str]
) -> tuple[Path, ...]:
    """Write each finding into its own folder.  Cases that an earlier search left there are kept."""
    with locked(folder):
        return tuple(write(finding, folder, text_of(finding), versions) for finding in findings)


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Keep other searches from writing to the store while the block runs.

    The block runs without the lock on a file system without locks, and after `LOCK_S`: all files are written whole, so
    two writers at once lose no more than a case of a list.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.with_name(f".{folder.name}{LOCK}"), timeout=LOCK_S)
    try:
        lock.acquire(poll_interval=POLL_S)
    except (Timeout, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        lock.release()


def write(finding: Finding, folder: Path, text: str, versions: Mapping[str, str]) -> Path:
    """Write a finding into its own folder of a locked store."""
    place = folder / finding.id
    document = finding_document(finding, versions)
    if not place.exists():
        # Under another name until it holds a finding: a write that is cut off leaves no damaged folder.
        draft = wire.draft_of(place)
        draft.mkdir()
        try:
            files.write(document, draft / FINDING)
            draft.replace(place)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            if not place.exists():  # no other search has written it meanwhile
                raise
    add_cases(finding, folder)
    if finding.confirmed or not _is_confirmed(place):
        files.write_text(f"{text.rstrip()}\n", place / TEXT)
        files.write(document, place / FINDING)
    return place


def holds(finding: Finding, folder: Path) -> bool:
    """Return True if a confirmed finding of this very case is stored."""
    try:
        stored = files.read(folder / finding.id / FINDING, FindingDocument).finding
    except ReplayError:
        return False
    return stored.confirmed and (stored.case, stored.preceding_case) == (finding.case, finding.preceding_case)


def add_cases(finding: Finding, folder: Path) -> None:
    """Add the cases of a finding to its folder of a locked store, and change nothing else."""
    path = folder / finding.id / CASES.replace("*", finding.case.digest)
    stored = _lines(path)
    lines = dict.fromkeys((*stored, *map(to_json, finding.cases or (finding.first_case,))))
    if len(lines) > len(stored):
        files.write_text("".join(f"{line}\n" for line in lines), path)


def nearest() -> Path:
    """Return the store of the working folder, or of the nearest folder above that has one."""
    above = (folder / FOLDER for folder in Path.cwd().parents)
    return next((folder for folder in (FOLDER, *above) if folder.is_dir()), FOLDER)


def is_stored(file: Path) -> bool:
    """Return True if this is the file of a finding in a store."""
    place = file.absolute()
    return place.name == FINDING and place.parents[1].name == FOLDER.name and FOLDER.parts[0] in place.parts


def locate(name: str, folder: Path | None = None) -> Path:
    """Return the file of that name, or else that of the stored finding with that id.

    `folder` is by default the nearest store.

    Raises:
        UsageError: neither exists; the text names the nearest ids.
    """
    folder = folder or nearest()
    path = Path(name)
    if path.is_dir():
        if not (path / FINDING).is_file():
            raise UsageError(f"{path} holds no {FINDING}: name the folder of one finding, or its id")
        return path / FINDING
    if path.exists():
        return path
    if path.suffix or path.parent != Path():
        raise UsageError(f"there is no {path}: name a file of findings, or the id of a stored one")
    stored = folder / name / FINDING
    if not stored.is_file():
        raise unknown("finding", name, [known.parent.name for known in folder.glob(f"*/{FINDING}")])
    return stored


def load(folder: Path, *, with_cases: bool = True) -> Kept:
    """Read all findings of a folder and group them by signature.

    Without cases, only bugs with several folders have them, to count them.
    """
    damaged: list[str] = []
    stored = _readable(sorted(path for path in folder.glob("[!.]*") if path.is_dir()), damaged, with_cases=with_cases)
    by_signature = sorted(stored, key=lambda bug: str(bug.finding.fail.signature))
    groups = [tuple(same) for _, same in groupby(by_signature, key=lambda bug: bug.finding.fail.signature)]
    bugs: list[Stored] = []
    for group in groups:
        is_whole = with_cases or len(group) == 1
        same = group if is_whole else _readable((bug.folder for bug in group), damaged, with_cases=True)
        bugs += (_merged(tuple(same)),) if same else ()
    return Kept(bugs=tuple(bugs), damaged=tuple(damaged))


def _readable(places: Iterable[Path], damaged: list[str], *, with_cases: bool) -> Sequence[Stored]:
    """Return what can be read; add a message for each folder that cannot."""
    stored: list[Stored] = []
    for place in places:
        try:
            stored.append(_load(place, with_cases=with_cases))
        except ReplayError as error:
            damaged.append(str(error))
    return stored


def remove(ids: Collection[str], folder: Path) -> None:
    """Remove the folders of the findings with these ids."""
    for place in folder.glob(f"[!.]*/{FINDING}"):
        if files.read(place, FindingDocument).finding.id in ids:
            shutil.rmtree(place.parent)


def _is_confirmed(place: Path) -> bool:
    """Return True if a readable and confirmed finding is stored there."""
    try:
        return files.read(place / FINDING, FindingDocument).confirmed
    except ReplayError:
        return False


def _lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8").splitlines()) if path.is_file() else ()


def cases_of(place: Path) -> tuple[Case, ...]:
    """Read the cases that showed a finding, from its folder; none if that has no list of them.

    Raises:
        ReplayError: a list is damaged; the text names it.
    """
    listed = (case for path in sorted(place.glob(CASES)) for case in _cases(path))
    return tuple({case.digest: case for case in listed}.values())


def _load(place: Path, *, with_cases: bool) -> Stored:
    document = files.read(place / FINDING, FindingDocument)
    finding = document.finding
    if with_cases:
        finding = replace(finding, cases=cases_of(place))
    else:
        for listed in place.glob(CASES):
            _check_cases(listed)
    return Stored(finding=finding, folder=place, versions=document.versions)


def _check_cases(path: Path) -> None:
    """Read the list of cases only if it seems to be damaged: of most findings nobody needs it.

    Raises:
        ReplayError: it is damaged.
    """
    if not COMPLETE.fullmatch(path.read_text(encoding="utf-8", errors="replace")):
        _cases(path)


def _cases(path: Path) -> tuple[Case, ...]:
    try:
        return tuple(map(files.read_case, _lines(path)))
    except (ReplayError, UnicodeDecodeError) as error:
        raise ReplayError(f"{path}: {error}") from None


def rank(finding: Finding) -> tuple[bool, int, str, str]:
    """Return the sort key of findings with one signature: confirmed ones first, then by the size of the case.

    Among cases of one size the content decides, so that several machines keep the same in any order.
    """
    return not finding.confirmed, prod(finding.case.dims.values()), finding.id, finding.case.digest


def _merged(same: tuple[Stored, ...]) -> Stored:
    if len(same) == 1:  # nearly always, and an id takes time
        return same[0]
    ranked = sorted(same, key=lambda bug: rank(bug.finding))
    first, *rest = ranked
    cases = {case.digest: case for bug in ranked for case in bug.finding.cases}
    symptoms = {symptom.signature: symptom for bug in reversed(ranked) for symptom in bug.finding.symptoms}
    return replace(
        first,
        finding=replace(
            first.finding, cases=tuple(cases.values()), sightings=len(cases), symptoms=tuple(symptoms.values())
        ),
        other_folders=tuple(bug.folder for bug in rest),
    )
