"""Where findings are kept so that their id is enough to replay them: one JSON file each under `.harness/findings`."""

import json
from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from harness.errors import unknown
from harness.findings.report import FORMAT, finding_document
from harness.model.finding import Finding

FOLDER = Path(".harness", "findings")


def save(findings: Iterable[Finding], folder: Path = FOLDER) -> tuple[Path, ...]:
    """Write the findings, each under its id; findings with the same smallest case share a file."""
    written: list[Path] = []
    for digest, same in groupby(sorted(findings, key=attrgetter("id")), key=attrgetter("id")):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{digest}.json"
        document = {"format": FORMAT, "findings": [finding_document(finding) for finding in same]}
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        written.append(path)
    return tuple(written)


def locate(name: str, folder: Path = FOLDER) -> Path:
    """The file of that name, or else the stored finding of that id.

    Raises:
        UsageError: neither exists; the text names the nearest ids.
    """
    path = Path(name)
    if path.suffix or path.exists():
        return path
    stored = folder / f"{name}.json"
    if not stored.is_file():
        raise unknown("finding", name, [known.stem for known in folder.glob("*.json")])
    return stored
