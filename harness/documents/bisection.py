"""The document of a bisection: what each release or commit showed, and where the bug was introduced and fixed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.documents.kinds import SCHEMA_VERSION, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedMember:
    """One release or commit that was checked."""

    name: str
    note: str
    """The subject of a commit."""
    result: str
    """`bad`, `good` or `skip`."""
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectedBorder:
    """One border that was searched for."""

    direction: str
    """`introduced` or `fixed`."""
    ending: str
    """`found`, `no border` or `not checked`."""
    bad: str | None
    good: str | None
    skipped_between: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectionDocument:
    """The result of `harness bisect`."""

    kind: Kind = Kind.BISECTION
    schema_version: int = SCHEMA_VERSION
    finding: str
    """The id."""
    subject: str
    """What was bisected: `fla-core`."""
    conclusion: str
    checked: tuple[CheckedMember, ...]
    """In the order of the history."""
    borders: tuple[BisectedBorder, ...]
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
