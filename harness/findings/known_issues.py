"""Findings that a project accepts for the time being: `known_issues.toml`.

    [[issue]]
    signature = "write-overlap: norm_kernel norm.py: tl.store(Y + rows, y, mask=rows < N)"
    link = "https://github.com/fla-org/flash-linear-attention/pull/1249"
    expires = 2027-03-31

Such a finding is counted and shown with its link, and fails nothing until the date.  An entry is reported if its kernel
or op was tried and its failure was not seen.  The bug may be fixed, or the search was short.

A finding with symptoms is known if its own signature is: an entry for a consequence does not excuse the cause.  For the
finding of an idiom, the entry may be `oracle: idiom`, which holds for every kernel; or each of its signatures is known.
"""

import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from harness import tables
from harness.documents.campaign import KnownFinding
from harness.errors import UsageError, unknown
from harness.model.finding import Finding
from harness.model.verdict import Fail, Signature
from harness.oracles import registry

FILE = "known_issues.toml"
KEYS = ("signature", "link", "expires")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownIssue:
    """One entry."""

    signature: str
    """As a report prints it: `oracle: kernel place`."""
    link: str
    expires: date
    """The first day on which it counts again."""

    @property
    def subject(self) -> str:
        """Return the kernel or op that the signature names."""
        return self.signature.partition(": ")[2].split(" ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownIssues:
    """All entries of a file, on one day."""

    issues: tuple[KnownIssue, ...]
    today: date

    def among(self, findings: Iterable[Finding]) -> tuple[KnownFinding, ...]:
        """Return the findings that are known, and whose entry has not expired."""
        live = {issue.signature: issue for issue in self.issues if self.today < issue.expires}
        matched = ((finding, _entry_of(finding, live)) for finding in findings)
        return tuple(
            KnownFinding(finding=finding.id, signature=issue.signature, link=issue.link, expires=issue.expires)
            for finding, issue in matched
            if issue is not None
        )

    def notices(self, findings: Iterable[Finding], kernels: Collection[str], ops: Iterable[str]) -> tuple[str, ...]:
        """Return a line for each entry that has expired, or that was not seen although its subject was tried."""
        seen = {_idiom(finding.fail) for finding in findings}
        seen |= {text for finding in findings for signature in finding.signatures for text in _texts(signature)}
        tried = {*kernels, *(op.rpartition(":")[2] for op in ops)}
        lines: list[str] = []
        for issue in self.issues:
            if issue.signature in seen and self.today >= issue.expires:
                lines.append(f"{issue.signature}: known, but its entry expired on {issue.expires}; it counts again")
            elif issue.signature not in seen and issue.subject in tried:
                lines.append(f"{issue.signature}: known ({issue.link}), and not seen in this search; is it fixed?")
        return tuple(lines)


def _entry_of(finding: Finding, live: Mapping[str, KnownIssue]) -> KnownIssue | None:
    """Return the entry that excuses the finding, if there is one."""
    own = next((live[text] for text in _texts(finding.fail.signature) if text in live), None)
    if not finding.fail.idiom:
        return own
    idiom = live.get(_idiom(finding.fail))
    has_all = all(any(text in live for text in _texts(signature)) for signature in finding.signatures)
    return idiom or (own if has_all else None)


def _texts(signature: Signature) -> tuple[str, ...]:
    """Return the entries for a signature: its own, and that of its oracle's family."""
    names = dict.fromkeys(filter(None, (signature.oracle, registry.traits_of(signature.oracle).family)))
    return tuple(str(replace(signature, oracle=name)) for name in names)


def _idiom(fail: Fail) -> str:
    """Return the entry for an idiom in any kernel: `undefined-lanes: block pointer without padding_option`."""
    return f"{fail.oracle}: {fail.idiom}"


NO_ISSUES = KnownIssues(issues=(), today=date.min)


def read_known_issues(path: Path, today: date) -> KnownIssues:
    """Read the file's entries; a file that does not exist has none.

    Raises:
        UsageError: the file is not TOML, or an entry is incomplete; the text names the entry.
    """
    if not path.is_file():
        return KnownIssues(issues=(), today=today)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from None
    entries = tables.entries(document, "issue", path)
    issues = tuple(_issue(entry, f"{path}, issue {number}") for number, entry in enumerate(entries, 1))
    return KnownIssues(issues=issues, today=today)


def _issue(entry: dict[str, Any], place: str) -> KnownIssue:
    for name in entry:
        if name not in KEYS:
            raise UsageError(f"{place}: {unknown('key', name, KEYS)}")
    for name in KEYS:
        if name not in entry:
            raise UsageError(f"{place}: {name} is missing")
    if type(entry["expires"]) is not date:
        raise UsageError(f"{place}: expires is not a date; write it bare: expires = 2027-03-31")
    for name in ("signature", "link"):
        if not isinstance(entry[name], str) or not entry[name]:
            raise UsageError(f"{place}: {name} is not a string")
    return KnownIssue(signature=entry["signature"], link=entry["link"], expires=entry["expires"])
