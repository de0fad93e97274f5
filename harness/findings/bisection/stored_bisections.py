"""The bisections of a stored finding: `bisection-<subject>.json` in its folder, one for each package or repository."""

import re
from pathlib import Path

from harness.documents import files
from harness.documents.bisection import BisectionDocument
from harness.findings.store import is_stored


def save(bisection: BisectionDocument, finding: Path) -> Path | None:
    """Write the bisection next to the finding; None if that is not in a store."""
    if not is_stored(finding):
        return None
    name = re.sub(r"[^\w.-]+", "-", bisection.subject)
    path = finding.with_name(f"bisection-{name}.json")
    files.write(bisection, path)
    return path


def load(folder: Path) -> tuple[BisectionDocument, ...]:
    """Read the bisections in the folder of a finding.

    Raises:
        ReplayError: one is damaged; the text names it.
    """
    return tuple(files.read(path, BisectionDocument) for path in sorted(folder.glob("bisection-*.json")))
