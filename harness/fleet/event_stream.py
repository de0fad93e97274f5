"""Events: what a search tells another program while it runs, one JSON object a line.

    {"event": "progress", "cases": 12, "failures": 1}
    {"event": "finding", "finding": {…}}
    {"event": "notice", "text": "NVIDIA H200 is in quarantine for this session: …"}

A finding is sent when it is seen, and again whenever more is known of it; its signature says which one it is.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from harness.documents import files
from harness.documents.finding import FindingDocument, finding_document
from harness.errors import ReplayError
from harness.model.finding import Finding

EVERY_S = 1.0
"""How often a search tells its progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCount:
    """How far a search is."""

    cases: int
    failures: int
    """With different signatures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What a search says about the machine, as of a GPU that it no longer uses."""

    text: str


class EventStream:
    """Writes the events of one search."""

    def __init__(self, write: Callable[[str], object]) -> None:
        """`write` gets each line."""
        self._write = write
        self._reported = 0.0

    def progress(self, count: CaseCount) -> None:
        """Tell the progress, at most every second."""
        if time.monotonic() - self._reported >= EVERY_S:
            self._reported = time.monotonic()
            self._send({"event": "progress", "cases": count.cases, "failures": count.failures})

    def found(self, finding: Finding) -> None:
        """Tell a finding, as it is now."""
        self._send({"event": "finding", "finding": files.plain_of(finding_document(finding))})

    def notice(self, text: str) -> None:
        """Tell what the search says about the machine."""
        self._send({"event": "notice", "text": text})

    def _send(self, event: dict[str, object]) -> None:
        self._write(f"{json.dumps(event)}\n")


def event_in(line: str) -> CaseCount | Finding | Notice | None:
    """Return the event of a line; None for any other line."""
    try:
        event = json.loads(line)
        match event:
            case {"event": "progress", "cases": int(cases), "failures": int(failures)}:
                return CaseCount(cases=cases, failures=failures)
            case {"event": "finding", "finding": dict() as finding}:
                return files.read_plain(finding, FindingDocument).finding
            case {"event": "notice", "text": str(text)}:
                return Notice(text=text)
            case _:
                return None
    except (ValueError, ReplayError):
        return None
