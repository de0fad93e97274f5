"""Reading cases back from files that come from anywhere: JSON only, nothing is executed, what is wrong is named."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from harness.errors import ReplayError
from harness.findings.campaign_report import FORMAT
from harness.model.case import Case
from harness.model.finding import NEVER_REPEATED, Excerpt, Finding, ReplayCount, identity
from harness.model.picture import Picture, Pictures
from harness.model.run import Launch, Source
from harness.model.verdict import Fail, Severity, Signature
from harness.wire import from_json

Object = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A case to run again, and what it is known to show."""

    case: Case
    signature: Signature | None
    """None for a bare case: whatever it shows is news."""
    libraries: tuple[str, ...] = ()
    needs: Case | None = None

    @property
    def id(self) -> str:
        """That of the finding; of a bare case, its digest."""
        return self.case.digest if self.signature is None else identity(self.signature, self.case)


def read(path: Path) -> tuple[Recorded, ...]:
    """What a file holds: the report of `harness fuzz --json`, a single finding, or a single case.

    Raises:
        ReplayError: the file cannot be read or is none of these; the text names the file and the field at fault.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReplayError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        return parse(text)
    except ReplayError as error:
        raise ReplayError(f"{path}: {error}") from None


def parse(text: str) -> tuple[Recorded, ...]:
    """What the text holds.

    Raises:
        ReplayError: it is no report, finding or case.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReplayError(f"not readable as JSON: {error}") from None
    match document:
        case {"format": str(given)} if given != FORMAT:
            raise ReplayError(f"its format is {given!r}, and this release reads {FORMAT!r}: make a new file")
        case {"findings": list(findings)}:
            return tuple(_finding(one, f"findings[{number}]") for number, one in enumerate(findings, 1))
        case {"case": _}:
            return (_finding(document, "finding"),)
        case {"op": _, "dims": _}:
            return (Recorded(case=_case(document, "case"), signature=None),)
        case _:
            raise ReplayError("neither a report (`findings`), nor a finding (`case`), nor a case (`op`, `dims`)")


def read_case(text: str) -> Case:
    """One case.

    Raises:
        ReplayError: the text holds none.
    """
    return from_json(text, Case)


def read_finding(document: Any) -> Finding:
    """A whole finding, from its document; the cases that showed it are kept elsewhere.

    Raises:
        ReplayError: it is none, is damaged, or was written by another version.
    """
    match document:
        case {"format": str(given)} if given != FORMAT:
            raise ReplayError(f"its format is {given!r}, and this release reads {FORMAT!r}")
        case {"oracle": _, "case": _}:
            found: Object = document
        case _:
            raise ReplayError("no finding: it has no `oracle` and `case`")
    recorded = _finding(found, "finding")
    assert recorded.signature is not None
    fail = Fail(
        signature=recorded.signature,
        message=_string(found, "message", "finding"),
        meaning=_string(found, "meaning", "finding"),
        source=_part(found, "source", Source),
        pictures=_pictures(found, "pictures"),
    )
    return Finding(
        fail=fail,
        case=recorded.case,
        launch=_part(found, "launch", Launch),
        first_case=_part(found, "first_case", Case) or recorded.case,
        sightings=_whole(found, "sightings"),
        confirmed=found.get("confirmed") is True,
        repeats=_part(found, "repeats", ReplayCount) or NEVER_REPEATED,
        needs=recorded.needs,
        libraries=recorded.libraries,
        where=_strings(found.get("where", []), "finding.where"),
        first_pictures=_pictures(found, "first_pictures"),
        excerpt=_part(found, "excerpt", Excerpt),
    )


def _part(document: Object, key: str, into: type[T]) -> T | None:
    if document.get(key) is None:
        return None
    try:
        return from_json(json.dumps(document[key]), into)
    except ReplayError as error:
        raise ReplayError(f"finding.{key}: {error}") from None


def _pictures(document: Object, key: str) -> tuple[Picture, ...]:
    try:
        return from_json(json.dumps({"pictures": document.get(key, [])}), Pictures).pictures
    except ReplayError as error:
        raise ReplayError(f"finding.{key}: {error}") from None


def _whole(document: Object, key: str) -> int:
    value = document.get(key)
    return value if isinstance(value, int) else _refuse(f"finding.{key}", "a whole number", value)


def _finding(found: Any, place: str) -> Recorded:
    if not isinstance(found, dict):
        _refuse(place, "an object", found)
    document: Object = found
    if "case" not in document:
        raise ReplayError(f"{place}: missing 'case'")
    case = _case(document["case"], f"{place}.case")
    needs = document.get("needs")
    return Recorded(
        case=case,
        signature=_signature(document, place) if "oracle" in document else None,
        libraries=_strings(document.get("with", []), f"{place}.with"),
        needs=_case(needs, f"{place}.needs") if needs is not None else None,
    )


def _case(document: Any, place: str) -> Case:
    try:
        return from_json(json.dumps(document), Case)
    except ReplayError as error:
        raise ReplayError(f"{place}: {error}") from None


def _signature(document: Object, place: str) -> Signature:
    severity = _string(document, "severity", place)
    if severity not in set(Severity):
        _refuse(f"{place}.severity", " or ".join(Severity), severity)
    return Signature(
        oracle=_string(document, "oracle", place),
        severity=Severity(severity),
        op=_string(document, "op", place),
        kernel=_string(document, "kernel", place),
        place=_string(document, "place", place),
    )


def _string(document: Object, key: str, place: str) -> str:
    if key not in document:
        raise ReplayError(f"{place}: missing {key!r}")
    value = document[key]
    return value if isinstance(value, str) else _refuse(f"{place}.{key}", "a string", value)


def _strings(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        _refuse(place, "a list of strings", value)
    return tuple(value)


def _refuse(place: str, expected: str, got: object) -> NoReturn:
    raise ReplayError(f"{place}: expected {expected}, got {str(got)[:60]!r}")
