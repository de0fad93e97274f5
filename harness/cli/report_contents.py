"""What `harness report` and `harness findings` show: the contents of stored findings, and of JSON reports."""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from harness.errors import UsageError
from harness.findings.known_issues import read_known_issues
from harness.findings.store import FINDING, nearest
from harness.findings.store import FOLDER as STORE
from harness.reports.contents import ReportContents, read_contents


def contents_of(names: Sequence[str], known: Path, earlier: Sequence[str] = ()) -> ReportContents:
    """Read the named folders, findings and reports, or else the store of findings.

    Raises:
        UsageError: a named path does not exist, nothing is named and there is no store, or nothing can be read.
    """
    issues = read_known_issues(known, date.today())  # noqa: DTZ011 - a date that people write has no zone
    contents = read_contents(_existing(names), earlier=tuple(_earlier(earlier)), issues=issues, folder=nearest())
    if not contents.bugs and not contents.campaigns and contents.damaged:
        raise UsageError(
            f"nothing of it can be read: {contents.damaged[0]}: name a folder of findings, or a report of "
            "harness fuzz --json"
        )
    return contents


def _earlier(names: Sequence[str]) -> Iterator[Path]:
    """Yield the reports, and those in each folder by the numbers in their names: `9.json` before `10.json`."""
    for path in map(Path, names):
        yield from sorted(path.glob("*.json"), key=_in_numbers) if path.is_dir() else (path,)


def _in_numbers(path: Path) -> list[tuple[str, int]]:
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", path.stem)]


def _existing(names: Sequence[str]) -> tuple[Path, ...]:
    paths = tuple(path if path.exists() else _stored(path) for path in map(Path, names))
    if not names and not nearest().is_dir():
        raise UsageError(f"there is no {STORE} here or above: run harness fuzz first, or name a folder or a report")
    return paths or (nearest(),)


def _stored(name: Path) -> Path:
    """Return the folder of the stored finding with this id."""
    folder = nearest() / name
    if name.name == str(name) and (folder / FINDING).is_file():
        return folder
    raise UsageError(f"there is no {name}: name a folder of findings, or a report of harness fuzz --json")
