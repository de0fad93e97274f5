"""Documents of earlier schema versions, brought up to date one version at a time.

A migration takes the parsed JSON of one version and returns that of the next.  It moves and renames keys and checks
nothing: a value of a wrong type stays as it is, and the reader of the present version names it.

Version 1 has `format` in the place of `kind` and `schema_version`, and files that people wrote may lack that too.
"""

from collections.abc import Callable, Mapping
from typing import Any

from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.errors import ReplayError

Object = dict[str, Any]

FORMATS = {
    "kernel-harness-findings/1": None,
    "kernel-harness-region/1": Kind.REGION,
    "kernel-harness-corpus/1": Kind.CORPUS,
    "kernel-harness-mutation/1": Kind.MUTATION,
}
"""`format` of version 1 by kind; findings, regressions and campaigns share one and differ in their keys."""


def version_of(document: Object) -> int:
    """Return the document's schema version.

    Raises:
        ReplayError: this release cannot read it.
    """
    if "schema_version" not in document and "kind" in document:
        raise ReplayError("schema_version: missing")
    if "schema_version" not in document:
        given = document.get("format")
        if given is not None and (not isinstance(given, str) or given not in FORMATS):
            raise ReplayError(f"its format is {given!r}, which this release does not read")
        return 1
    version = document["schema_version"]
    if type(version) is not int or not 1 < version <= SCHEMA_VERSION:
        raise ReplayError(f"its schema_version is {version!r}, and this release reads up to {SCHEMA_VERSION}")
    return version


def from_version_1(document: Object) -> Object:
    """Rename keys to the field's terms, and name the kind."""
    kind = FORMATS.get(document.get("format", "kernel-harness-findings/1")) or _kind_of(document)
    if kind is None:
        return document
    rest = {key: value for key, value in document.items() if key != "format"}
    return {"kind": str(kind), "schema_version": 2, **_BODIES_1[kind](rest)}


MIGRATIONS: Mapping[int, Callable[[Object], Object]] = {1: from_version_1}
"""By the version that each reads."""


# --- version 1 -------------------------------------------------------------------------------------------------------


def _kind_of(document: Object) -> Kind | None:
    """Return the kind of a document that `format` does not tell apart; None if it is no document."""
    if "findings" in document:
        return Kind.CAMPAIGN
    if "meaning" in document:
        return Kind.FINDING
    if "oracle" in document and "case" in document:
        return Kind.REGRESSION
    return Kind.CASE if "case" in document or {"op", "dims"} <= document.keys() else None


def _finding(old: Object) -> Object:
    new = _renamed(old, **{"with": "libraries", "where": "engine_options", "needs": "preceding_case"})
    new.pop("config", None)  # stands in `launch` too
    new.setdefault("first_case", new.get("case"))
    _at(new, "repeats", lambda repeats: _renamed(repeats, otherwise="other_result"))
    for pictures in ("pictures", "first_pictures"):
        _each(new, pictures, lambda picture: _renamed(picture, says="caption", reach="elements"))
    return _without_none(new, "repeats", "first_case")


def _regression(old: Object) -> Object:
    """Keep what a replay needs: a file that a person wrote may have any part of a finding."""
    new = _renamed(old, **{"with": "libraries", "needs": "preceding_case"})
    kept = ("id", "oracle", "severity", "kernel", "op", "place", "signature", "message")
    return {key: new[key] for key in (*kept, "libraries", "case", "preceding_case") if key in new}


def _case(old: Object) -> Object:
    if "case" not in old:
        return {"case": old}
    new = _renamed(old, **{"with": "libraries", "needs": "preceding_case"})
    return {key: new[key] for key in ("case", "libraries", "preceding_case") if key in new}


def _campaign(old: Object) -> Object:
    new = _renamed(
        old,
        reasons="abstain_reasons",
        compiled="compiled_builds",
        accepted="accepted_reports",
        waiting="gpu_wait_share",
        known="known_findings",
        area="tested_sizes",
        **{"with": "libraries"},
    )
    _each(new, "findings", lambda finding: {"kind": str(Kind.FINDING), "schema_version": 2, **_finding(finding)})
    _rows(new, "verdicts", ("op", "device", "oracle", "outcome", "cases"))
    _rows(new, "tested_sizes", ("op", "dim", "size", "sm_count", "outcome", "cases"))
    return new


def _region(old: Object) -> Object:
    def region(value: Object) -> Object:
        new = _renamed(value, ended="stop_reason", compared_with="compared_sm_counts")
        _each(new, "points", lambda point: _renamed(point, at="sizes"))
        return new

    new = dict(old)
    _at(new, "region", region)
    return new


def _corpus(old: Object) -> Object:
    def search(value: Object) -> Object:
        new = _renamed(value, judged="checked", others="other_signatures")
        _at(new, "found", lambda found: _renamed(found, where="source_line"))
        return new

    def record(value: Object) -> Object:
        new = dict(value)
        for release in ("bad", "fixed"):
            _at(new, release, search)
        return new

    new = dict(old)
    _each(new, "records", record)
    return new


def _mutation(old: Object) -> Object:
    new = dict(old)
    _each(new, "outcomes", lambda outcome: _renamed(outcome, said="message", also="other_oracles"))
    return new


_BODIES_1: Mapping[Kind, Callable[[Object], Object]] = {
    Kind.FINDING: _finding,
    Kind.REGRESSION: _regression,
    Kind.CASE: _case,
    Kind.CAMPAIGN: _campaign,
    Kind.REGION: _region,
    Kind.CORPUS: _corpus,
    Kind.MUTATION: _mutation,
}


# --- moves -----------------------------------------------------------------------------------------------------------


def _renamed(document: Object, **names: str) -> Object:
    """Return the object with keys renamed, in the same order."""
    return {names.get(key, key): value for key, value in document.items()}


def _without_none(document: Object, *keys: str) -> Object:
    """Return the object without those of the keys whose value is null."""
    return {key: value for key, value in document.items() if key not in keys or value is not None}


def _at(document: Object, key: str, change: Callable[[Object], Object]) -> None:
    """Change the object under a key, if one is there."""
    if isinstance(document.get(key), dict):
        document[key] = change(document[key])


def _each(document: Object, key: str, change: Callable[[Object], Object]) -> None:
    """Change every object of the list under a key, if one is there."""
    if isinstance(document.get(key), list):
        document[key] = [change(one) if isinstance(one, dict) else one for one in document[key]]


def _rows(document: Object, key: str, names: tuple[str, ...]) -> None:
    """Turn every row of the list under a key into an object."""
    if isinstance(document.get(key), list):
        document[key] = [
            dict(zip(names, row, strict=True)) if isinstance(row, list) and len(row) == len(names) else row
            for row in document[key]
        ]
