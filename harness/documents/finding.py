"""The documents of one finding: what replays it, and everything that is known about it.

`id`, `signature` and `confirmation` are written for people and tools.  A reader derives them from the other fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.model.case import Case
from harness.model.finding import (
    NEVER_REPEATED,
    Confirmation,
    Excerpt,
    Finding,
    FirstSeen,
    ReplayCount,
    Symptom,
    WatchedLaunch,
)
from harness.model.hardware_blame import HardwareBlame
from harness.model.miscompilation import Miscompilation
from harness.model.picture import Picture
from harness.model.region import Region
from harness.model.run import Launch, Source
from harness.model.verdict import Fail, Severity, Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDocument:
    """A case without a failure on record."""

    kind: Kind = Kind.CASE
    schema_version: int = SCHEMA_VERSION
    case: Case
    libraries: tuple[str, ...] = ()
    preceding_case: Case | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionDocument:
    """What a replay needs, and a line for the reader: no pictures, and no paths of the machine that found it."""

    kind: Kind = Kind.REGRESSION
    schema_version: int = SCHEMA_VERSION
    id: str = ""
    oracle: str
    severity: Severity
    kernel: str
    """Empty where no single kernel is at fault."""
    op: str
    place: str
    """As `Signature.place`."""
    signature: str = ""
    """As `known_issues.toml` names it: `write-overlap: norm_kernel norm.py: tl.store(Y + rows, y)`."""
    message: str = ""
    libraries: tuple[str, ...] = ()
    """As given to `--with`."""
    import_paths: tuple[str, ...] = ()
    """As `Finding.import_paths`."""
    case: Case
    """The smallest one."""
    preceding_case: Case | None = None
    """Runs first in the same process, if the failure needs it."""
    symptoms: tuple[Symptom, ...] = ()
    """Other failures with the same cause."""

    @property
    def failure(self) -> Signature:
        """The signature as a value."""
        return Signature(**_shared(self, Signature))


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingDocument(RegressionDocument):
    """Everything about one finding but the cases that showed it, which its folder keeps in `cases-*.jsonl`."""

    kind: Kind = Kind.FINDING
    meaning: str
    source: Source | None = None
    launch: Launch | None = None
    confirmed: bool
    confirmation: Confirmation | None = None
    """As `Finding.confirmation`."""
    repeats: ReplayCount = NEVER_REPEATED
    sightings: int
    rule: str = ""
    """As `Finding.rule`."""
    first_case: Case
    engine_options: tuple[str, ...] = ()
    """Of the command that found it: `--engine cuda`."""
    replay: str = ""
    """The command that replays it."""
    pictures: tuple[Picture, ...] = ()
    """Of the smallest case."""
    first_pictures: tuple[Picture, ...] = ()
    """Of the first case."""
    first_seen: FirstSeen | None = None
    excerpt: Excerpt | None = None
    hardware_blame: HardwareBlame | None = None
    miscompilation: Miscompilation | None = None
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of Python and of the distributions that decide results; empty inside a campaign, which has its own."""
    idiom: str = ""
    """As `Fail.idiom`."""
    watched: WatchedLaunch | None = None
    """As `Finding.watched`."""

    @property
    def finding(self) -> Finding:
        """The finding as a value."""
        fail = Fail(**_shared(self, Fail, signature=self.failure))
        return Finding(**_shared(self, Finding, fail=fail))


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionDocument:
    """A region; the sentences are derived from it for the reader."""

    kind: Kind = Kind.REGION
    schema_version: int = SCHEMA_VERSION
    sentences: tuple[str, ...] = ()
    region: Region


def finding_document(finding: Finding, versions: Mapping[str, str] | None = None) -> FindingDocument:
    """Return the document of a finding."""
    sources = (finding.fail.signature, finding.fail, finding)
    parts: dict[str, Any] = {
        name: value for source in sources for name, value in _shared(source, FindingDocument).items()
    }
    parts |= {
        "id": finding.id,
        "op": finding.fail.signature.op or finding.case.op,
        "signature": str(finding.fail.signature),
        "confirmation": finding.confirmation,
        "replay": finding.replay_command,
        "versions": versions or {},
    }
    return FindingDocument(**parts)


def regression_document(finding: Finding, libraries: tuple[str, ...]) -> RegressionDocument:
    """Return what `harness keep` writes; `libraries` replace those on record, if there are any."""
    kept = _shared(
        finding_document(finding),
        RegressionDocument,
        kind=Kind.REGRESSION,
        libraries=libraries or finding.libraries,
        symptoms=tuple(replace(symptom, source=None) for symptom in finding.symptoms),
    )
    return RegressionDocument(**kept)


def _shared(source: Any, of: type[Any], **changes: Any) -> dict[str, Any]:
    """Return the fields of a value that another class has too, with changes."""
    names = _names(of)
    return {name: getattr(source, name) for name in _names(type(source)) if name in names} | changes


@cache
def _names(of: type[Any]) -> Mapping[str, None]:
    """Return the names of a class's fields, in their order."""
    return {each.name: None for each in fields(of)}
