"""Findings that a project lives with for the time being: `known_issues.toml`.

    [[issue]]
    signature = "write-overlap: layer_norm_bwd_kernel layernorm.py:444"
    link = "https://github.com/fla-org/flash-linear-attention/pull/1249"
    expires = 2027-03-31

Such a finding is counted and shown with its link, and fails nothing until the date.  An entry whose kernel, or op, was
tried without its finding being seen is reported: it may have been mended, or the search was short.
"""

import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from harness import tables
from harness.errors import UsageError, unknown
from harness.model.finding import Finding

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
        """The kernel or op that the signature names."""
        return self.signature.partition(": ")[2].split(" ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A finding that an entry speaks of."""

    finding: str
    """Its id."""
    issue: KnownIssue


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownIssues:
    """All entries of a file, as they stand on one day."""

    issues: tuple[KnownIssue, ...]
    today: date

    def among(self, findings: Iterable[Finding]) -> tuple[Known, ...]:
        """The findings that are known, and whose entry has not expired."""
        live = {one.signature: one for one in self.issues if self.today < one.expires}
        named = ((finding, live.get(str(finding.fail.signature))) for finding in findings)
        return tuple(Known(finding=finding.id, issue=issue) for finding, issue in named if issue is not None)

    def notices(self, findings: Iterable[Finding], kernels: Collection[str], ops: Iterable[str]) -> tuple[str, ...]:
        """A line for each entry that has expired, and for each that no longer fires where its subject was tried."""
        seen = {str(finding.fail.signature) for finding in findings}
        tried = {*kernels, *(op.rpartition(":")[2] for op in ops)}
        lines: list[str] = []
        for one in self.issues:
            if one.signature in seen and self.today >= one.expires:
                lines.append(f"{one.signature}: known, but its entry expired on {one.expires}; it counts again")
            elif one.signature not in seen and one.subject in tried:
                lines.append(f"{one.signature}: known ({one.link}), and not seen in this search; is it mended?")
        return tuple(lines)


NO_ISSUES = KnownIssues(issues=(), today=date.min)


def read_known_issues(path: Path, today: date) -> KnownIssues:
    """The file's entries; none where there is no such file.

    Raises:
        UsageError: it is not TOML, or an entry lacks something; the text names the entry.
    """
    if not path.is_file():
        return KnownIssues(issues=(), today=today)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from None
    found = tables.entries(document, "issue", path)
    issues = tuple(_issue(entry, f"{path}, issue {number}") for number, entry in enumerate(found, 1))
    return KnownIssues(issues=issues, today=today)


def _issue(entry: dict[str, Any], place: str) -> KnownIssue:
    for name in entry:
        if name not in KEYS:
            raise UsageError(f"{place}: {unknown('key', name, KEYS)}")
    for name in KEYS:
        if name not in entry:
            raise UsageError(f"{place}: {name} is missing")
    if type(entry["expires"]) is not date:
        raise UsageError(f"{place}: expires is no date; write it bare: expires = 2027-03-31")
    for name in ("signature", "link"):
        if not isinstance(entry[name], str) or not entry[name]:
            raise UsageError(f"{place}: {name} is no text")
    return KnownIssue(signature=entry["signature"], link=entry["link"], expires=entry["expires"])
