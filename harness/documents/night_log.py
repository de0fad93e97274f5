"""The log of a run of a night: a line for each thing that happened, written when it happened.

A line is a document by itself.  So a log that is cut off loses its last line at most, and the logs of several machines
are one set of lines.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.model.finding import Confirmation, Finding
from harness.model.verdict import Severity, Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBegun:
    """A machine began its part of a night."""

    part: str
    """`2/3` for the second of three machines."""
    searches: tuple[str, ...]
    """Their names."""
    seed: int
    versions: Mapping[str, str]
    """Of Python and of the distributions that decide results."""
    gpus: tuple[str, ...] = ()
    """Model and driver of each hardware GPU of the machine: `NVIDIA H200, driver 580.159.04`."""
    units: int = 0
    """Pairs of op and device of all searches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTried:
    """A chunk that ran: cases of one op on one device."""

    search: str
    op: str
    device: str
    """The slug."""
    engine: str
    libraries: tuple[str, ...] = ()
    """As `--with` takes them."""
    release: str = ""
    """What they are, for a reader: `fla-core 0.6.0`; empty for installed ones."""
    digest: str = ""
    """Of the sources that the op reaches; empty if nobody computed it."""
    block: int = 0
    """The number of the block of draws, from 0."""
    passed: int = 0
    failed: int = 0
    abstained: int = 0
    abstain_reasons: Mapping[str, int] = field(default_factory=dict[str, int])
    """The most frequent ones."""
    seconds: float = 0.0
    """With confirming and shrinking."""
    is_cut_off: bool = False
    """True if it was ended before its last case."""
    replayed: tuple[str, ...] = ()
    """The ids of earlier findings whose smallest cases ran first."""
    failure: str = ""
    """Why it has no result; empty if it has one."""

    @property
    def cases(self) -> int:
        return self.passed + self.failed + self.abstained

    @property
    def checked(self) -> int:
        """Cases that passed or failed."""
        return self.passed + self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class NightSighting:
    """A finding that a chunk saw, as it was when the line was written; later lines know more."""

    search: str
    op: str
    device: str
    """The slug."""
    release: str = ""
    finding: str
    """The id."""
    signature: Signature
    severity: Severity
    """Of the finding, which may have symptoms."""
    confirmation: Confirmation
    message: str
    shown: int = 0
    """How often the smallest case showed it alone."""
    runs: int = 0
    """How often it ran alone."""
    symptoms: tuple[str, ...] = ()
    """The ids of other findings that are symptoms of this one."""


def sighting_of(finding: Finding, *, search: str, op: str, device: str, release: str) -> NightSighting:
    """Return what the log says of a finding, as it is now, that a search saw on a device."""
    return NightSighting(
        search=search,
        op=op,
        device=device,
        release=release,
        finding=finding.id,
        signature=finding.fail.signature,
        severity=finding.severity,
        confirmation=finding.confirmation,
        message=finding.fail.message,
        shown=finding.repeats.shown,
        runs=finding.repeats.runs,
        symptoms=tuple(symptom.signature.id for symptom in finding.symptoms),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """A machine ended its part of a night."""

    seconds: float
    is_interrupted: bool = False
    untried: int = 0
    """Units of this part that got no case."""
    quarantined: tuple[str, ...] = ()
    """A line for each GPU that was set aside, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightEntry:
    """One line.  One of the last four fields is set."""

    kind: Kind = Kind.NIGHT
    schema_version: int = SCHEMA_VERSION
    night: str
    """Its name, by which the runs of several machines are one night: `2026-11-28`."""
    run: str
    """Eight digits: no two runs have the same."""
    at: str
    """When the line was written, in UTC: `2026-11-28T02:00:00.000000Z`."""
    begun: RunBegun | None = None
    tried: ChunkTried | None = None
    seen: NightSighting | None = None
    ended: RunEnded | None = None
