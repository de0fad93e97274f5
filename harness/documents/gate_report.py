"""The document of a gate: what a change touches, and which findings it brings."""

from dataclasses import dataclass
from enum import StrEnum

from harness.documents.campaign import CampaignReport
from harness.documents.kinds import SCHEMA_VERSION, Kind


class GateVerdict(StrEnum):
    """The answer to whether the change may pass."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not checked"
    """No finding is new, and something that the change touches could not be checked."""


class Standing(StrEnum):
    """What a finding says of the change."""

    NEW = "new"
    """It repeats alone, and the base does not show it."""
    AT_BASE = "at the base too"
    KNOWN = "known"
    """`known_issues.toml` lists it."""
    FLAKY = "flaky"
    """It does not repeat alone."""
    NOT_CONFIRMED = "not confirmed"
    """There was no time to repeat it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpChange:
    """An op that reaches something that differs from the base."""

    op: str
    through: tuple[str, ...]
    """What differs, as `fla/modules/layernorm.py: layer_norm_bwd`; empty for a new op."""
    kernels: tuple[str, ...] = ()
    """The names of the kernels and device functions among it."""
    is_new: bool = False
    """True if the base has no such op."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFinding:
    """A finding of the search, and what it says of the change."""

    finding: str
    """The id."""
    signature: str
    standing: Standing
    fails: bool
    """True if the gate fails for it."""
    note: str = ""
    """What the base shows instead, or why it could not be checked there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """What a change touches, and whether it brings findings that its base does not show."""

    kind: Kind = Kind.GATE
    schema_version: int = SCHEMA_VERSION
    verdict: GateVerdict
    base: str
    """As given to `--base`."""
    commit: str
    """The hash of the commit that the working tree is compared with."""
    op_count: int
    """How many ops the suites declare."""
    changes: tuple[OpChange, ...]
    """The ops that the change touches; no other op was searched."""
    unreached: tuple[str, ...] = ()
    """Code of the libraries that differs, and that no op reaches."""
    findings: tuple[JudgedFinding, ...] = ()
    """The order is that of the campaign."""
    not_checked: tuple[str, ...] = ()
    """What could not be checked."""
    campaign: CampaignReport | None = None
    """The search of these ops; null if the change touches none."""

    def of(self, *standings: Standing) -> tuple[JudgedFinding, ...]:
        """Return the findings of these standings."""
        return tuple(judged for judged in self.findings if judged.standing in standings)
