"""Where findings are kept: a folder for each under `.harness/findings`, of text and JSON, that a person can read too.

    <id>/finding.json   what `harness replay` reads
    <id>/finding.txt    the finding as printed
    <id>/cases.jsonl    every case that showed it, one a line

Other commands lay their results beside these: a reproducer, the region.  A folder is named by signature and smallest
case, so folders of several machines merge by copying; findings with one signature are one bug, whatever their case.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from pathlib import Path
from typing import Any

from harness.errors import ReplayError, unknown
from harness.findings.campaign_report import FORMAT, finding_document
from harness.findings.replay import read_case, read_finding
from harness.model.case import Case
from harness.model.finding import Finding
from harness.wire import to_json

FOLDER = Path(".harness", "findings")
NUMBERS = re.compile(r"\[\n\s+((?:[-+.\dE]+,\n\s+)*[-+.\dE]+)\n\s+\]", re.IGNORECASE)
"""No string of JSON holds a line break, so this matches none."""
FINDING, TEXT, CASES = "finding.json", "finding.txt", "cases.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One bug as kept: the plainest of the findings with its signature, and what the others add."""

    finding: Finding
    """With the cases of all of them, and as many sightings."""
    folder: Path
    versions: Mapping[str, str]
    others: tuple[Path, ...] = ()
    """Folders of findings with the same signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Everything in a folder of findings."""

    bugs: tuple[Stored, ...]
    damaged: tuple[str, ...]
    """What could not be read, and why."""


def save(
    findings: Iterable[Finding], folder: Path, tell: Callable[[Finding], str], versions: Mapping[str, str]
) -> tuple[Path, ...]:
    """Write each finding into its folder, `tell` its text; the cases that an earlier search left there are kept."""
    return tuple(_save(finding, folder / finding.id, tell(finding), versions) for finding in findings)


def locate(name: str, folder: Path = FOLDER) -> Path:
    """The file of that name, or else that of the stored finding with that id.

    Raises:
        UsageError: neither exists; the text names the nearest ids.
    """
    path = Path(name)
    if path.is_dir():
        return path / FINDING
    if path.suffix or path.exists():
        return path
    stored = folder / name / FINDING
    if not stored.is_file():
        raise unknown("finding", name, [known.parent.name for known in folder.glob(f"*/{FINDING}")])
    return stored


def load(folder: Path) -> Kept:
    """All findings of a folder, those with one signature together, and what is wrong with those that are damaged."""
    found: list[Stored] = []
    damaged: list[str] = []
    for place in sorted(path for path in folder.glob("*") if path.is_dir()):
        try:
            found.append(_load(place))
        except ReplayError as error:
            damaged.append(str(error))
    by_signature = sorted(found, key=lambda one: (str(one.finding.fail.signature), _rank(one)))
    grouped = groupby(by_signature, key=lambda one: one.finding.fail.signature)
    return Kept(bugs=tuple(_merged(tuple(same)) for _, same in grouped), damaged=tuple(damaged))


def _save(finding: Finding, place: Path, text: str, versions: Mapping[str, str]) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    document = {"format": FORMAT, **finding_document(finding), "versions": dict(versions)}
    (place / FINDING).write_text(_readable(document), encoding="utf-8")
    (place / TEXT).write_text(f"{text.rstrip()}\n", encoding="utf-8")
    lines = dict.fromkeys((*_lines(place / CASES), *map(to_json, finding.cases or (finding.first_case,))))
    (place / CASES).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return place


def _readable(document: Mapping[str, Any]) -> str:
    """JSON with lists of numbers on one line each, as a person would write them."""
    text = json.dumps(document, indent=2)
    return NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


def _lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8").splitlines()) if path.is_file() else ()


def _load(place: Path) -> Stored:
    path = place / FINDING
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReplayError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ReplayError(f"{path}: not readable as JSON: {error}") from None
    try:
        finding = read_finding(document)
    except ReplayError as error:
        raise ReplayError(f"{path}: {error}") from None
    return Stored(finding=replace(finding, cases=_cases(place / CASES)), folder=place, versions=_versions(document))


def _cases(path: Path) -> tuple[Case, ...]:
    try:
        return tuple(read_case(line) for line in _lines(path))
    except (ReplayError, UnicodeDecodeError) as error:
        raise ReplayError(f"{path}: {error}") from None


def _versions(document: Mapping[str, Any]) -> Mapping[str, str]:
    found: object = document.get("versions")
    return {str(name): str(release) for name, release in found.items()} if isinstance(found, dict) else {}


def _rank(stored: Stored) -> tuple[bool, int, str]:
    """Confirmed before doubtful, then by size."""
    finding = stored.finding
    return not finding.confirmed, prod(finding.case.dims.values()), finding.id


def _merged(same: tuple[Stored, ...]) -> Stored:
    first, *rest = same
    cases = {case.digest: case for one in same for case in one.finding.cases}
    sightings = first.finding.sightings if not rest else len(cases)
    return replace(
        first,
        finding=replace(first.finding, cases=tuple(cases.values()), sightings=sightings),
        others=tuple(one.folder for one in rest),
    )
