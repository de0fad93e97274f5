"""Reading the report of a whole campaign back, as `harness fuzz --json` wrote it; strict, and nothing is executed."""

import json
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from harness.errors import ReplayError
from harness.findings.campaign_report import FORMAT, Report
from harness.findings.known_issues import Known, KnownIssue
from harness.findings.replay import read_finding
from harness.model.finding import Finding
from harness.model.verdict import Outcome
from harness.search.campaign_statistics import Cell, PlanePoint
from harness.wire import from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownRow:
    finding: str
    link: str
    signature: str
    expires: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """Its fields but `format`, `findings` and `with`, each of which is read by itself."""

    cases: int
    passed: int
    failed: int
    abstained: int
    reasons: dict[str, int]
    seconds: float
    seed: int
    devices: tuple[str, ...]
    versions: dict[str, str]
    builds: int
    compiled: int
    interrupted: bool
    verdicts: tuple[tuple[str, str, str, Outcome, int], ...] = ()
    area: tuple[tuple[str, str, int, int, Outcome, int], ...] = ()
    known: tuple[_KnownRow, ...] = ()
    notices: tuple[str, ...] = ()
    accepted: dict[str, int] = field(default_factory=dict[str, int])
    waiting: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Libraries:
    libraries: tuple[str, ...] = ()


def read_campaign(path: Path) -> Report:
    """The report that the file holds.

    Raises:
        ReplayError: it cannot be read or is none; the text names the file and the field at fault.
    """
    try:
        return parse_campaign(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ReplayError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    except ReplayError as error:
        raise ReplayError(f"{path}: {error}") from None


def parse_campaign(text: str) -> Report:
    """The report that the text holds.

    Raises:
        ReplayError: it is none.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReplayError(f"not readable as JSON: {error}") from None
    match document:
        case {"format": str(given)} if given != FORMAT:
            raise ReplayError(f"its format is {given!r}, and this release reads {FORMAT!r}: make a new file")
        case {"format": _, "findings": list(findings), "cases": _}:
            return _report(document, findings)
        case _:
            raise ReplayError(
                "no report of a campaign: it needs `format`, `findings` and `cases`; see harness fuzz --json"
            )


def _report(document: dict[str, Any], findings: list[Any]) -> Report:
    rest = {key: value for key, value in document.items() if key not in {"format", "findings", "with"}}
    read = from_json(json.dumps(rest), _Document)
    return Report(
        findings=tuple(_finding(found, number) for number, found in enumerate(findings, 1)),
        cases=read.cases,
        passed=read.passed,
        failed=read.failed,
        abstained=read.abstained,
        reasons=read.reasons,
        seconds=read.seconds,
        seed=read.seed,
        devices=read.devices,
        versions=read.versions,
        builds=read.builds,
        compiled=read.compiled,
        libraries=from_json(json.dumps({"libraries": document.get("with", [])}), _Libraries).libraries,
        interrupted=read.interrupted,
        verdicts={Cell(op, device, oracle, outcome): count for op, device, oracle, outcome, count in read.verdicts},
        area={PlanePoint(op, dim, size, sms, outcome): count for op, dim, size, sms, outcome, count in read.area},
        known=tuple(map(_known, read.known)),
        notices=read.notices,
        accepted=read.accepted,
        waiting=read.waiting,
    )


def _finding(document: Any, number: int) -> Finding:
    try:
        return read_finding(document)
    except ReplayError as error:
        raise ReplayError(f"findings[{number}]: {error}") from None


def _known(row: _KnownRow) -> Known:
    try:
        expires = date.fromisoformat(row.expires)
    except ValueError:
        raise ReplayError(f"known: {row.expires!r} is no date") from None
    return Known(finding=row.finding, issue=KnownIssue(signature=row.signature, link=row.link, expires=expires))
