"""The document of a campaign: one object that tools, `harness replay` and `harness report` read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.documents.op_checks import OpChecks, UncheckedOp
from harness.model.avoided import AvoidedDraws, SetAsideOp
from harness.model.executed_lines import LineCount
from harness.model.finding import Finding
from harness.model.merging import (
    ALL,
    ANY,
    EACH_ONCE,
    LARGEST_FIRST,
    LINE_SUMS,
    PROMISING,
    RELEASES,
    ROWS,
    SORTED,
    TOTAL,
)
from harness.model.promising import PromisingCase
from harness.model.row_check import RowBits
from harness.model.verdict import Outcome, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictCount:
    """How many cases of one op on one device had one outcome from one oracle."""

    op: str
    device: str
    """The slug."""
    oracle: str
    outcome: Outcome
    cases: int = field(metadata=TOTAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeCount:
    """How many cases of one op had one size, one SM count and one outcome."""

    op: str
    dim: str
    """`T`, or else the op's first; empty if it has none."""
    size: int
    sm_count: int
    outcome: Outcome
    cases: int = field(metadata=TOTAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """How many row checks of one op on one device say the same of one kernel with one config."""

    op: str
    device: str
    """The slug."""
    kernel: str
    """Empty if torch stored the results."""
    config: str
    """The config of an autotuned kernel; empty for others."""
    bits: RowBits
    cases: int = field(metadata=TOTAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLines:
    """The executable lines of one kernel or device function, and how many launches executed them."""

    file: str
    """As `Excerpt.file`."""
    function: str
    line: int
    """The line of its definition."""
    lines: tuple[LineCount, ...] = field(metadata=LINE_SUMS)
    """Ranges of statements' first lines, ascending: first line, last line, launches.  0: no launch executed them."""

    @property
    def launches(self) -> Mapping[int, int]:
        """Launches by line, ascending."""
        return {line: count for first, last, count in self.lines for line in range(first, last + 1)}

    @property
    def missed(self) -> tuple[int, ...]:
        """The lines that no launch executed."""
        return tuple(line for line, count in self.launches.items() if not count)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFinding:
    """A finding that an entry of `known_issues.toml` excuses."""

    finding: str
    """The id."""
    signature: str
    link: str
    expires: date
    """The first day on which the finding counts again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignReport:
    """Everything that is kept of one campaign."""

    kind: Kind = Kind.CAMPAIGN
    schema_version: int = SCHEMA_VERSION
    findings: tuple[Finding, ...]
    """In JSON, each is a `FindingDocument`."""
    cases: int = field(metadata=TOTAL)
    passed: int = field(metadata=TOTAL)
    failed: int = field(metadata=TOTAL)
    abstained: int = field(metadata=TOTAL)
    abstain_reasons: Mapping[str, int] = field(metadata=LARGEST_FIRST)
    """Cases by reason."""
    seconds: float = field(metadata=TOTAL)
    """Of the search, without confirming and shrinking."""
    triage_seconds: float = field(default=0.0, metadata=TOTAL)
    """Of confirming and shrinking; 0 if they were interrupted."""
    seed: int
    devices: tuple[str, ...] = field(metadata=EACH_ONCE)
    versions: Mapping[str, str] = field(metadata=RELEASES)
    """Of Python and of the distributions that decide results."""
    libraries: tuple[str, ...] = field(default=(), metadata=EACH_ONCE)
    """As given to `--with`."""
    interrupted: bool = field(default=False, metadata=ANY)
    missing: tuple[str, ...] = field(default=(), metadata=ALL)
    """The parts of a divided search that did not report: `shard 5 of 8`."""
    kernels: tuple[str, ...] = field(default=(), metadata=SORTED)
    """The kernels that were launched."""
    uncompiled: Mapping[str, int] = field(default_factory=dict[str, int], metadata=LARGEST_FIRST)
    """Programs of `torch.compile` that ran uncompiled under `harness run`, by reason."""
    cut_off: tuple[str, ...] = field(default=(), metadata=ALL)
    """The cases that still ran when the time of the search was up; they are not among `cases`."""
    suite_errors: tuple[str, ...] = field(default=(), metadata=EACH_ONCE)
    """A message for each op whose results never have the structure of its definition's, and for what suites raised."""
    regressions: int = field(default=0, metadata=TOTAL)
    """Kept regressions that were replayed first.  What they show again is among the findings."""
    unchecked_regressions: tuple[str, ...] = field(default=(), metadata=EACH_ONCE)
    """A message for each of them that could not be checked."""
    builds: int = field(default=0, metadata=TOTAL)
    """Distinct kernels that were launched: constants, config and architecture included."""
    compiled_builds: int = field(default=0, metadata=TOTAL)
    """Builds that the whole compiler pipeline has compiled, so that their resources are known."""
    accepted_reports: Mapping[str, int] = field(default_factory=dict[str, int], metadata=LARGEST_FIRST)
    """Reports of compute-sanitizer that a file accepts, by tool, kernel and reason."""
    gpu_wait_share: float | None = None
    """The share of time in which GPUs waited for the compiler, 0 to 1; None if nothing was compiled ahead."""
    known_findings: tuple[KnownFinding, ...] = ()
    notices: tuple[str, ...] = ()
    """What is wrong with the list of known issues."""
    verdicts: tuple[VerdictCount, ...] = field(default=(), metadata=ROWS)
    tested_sizes: tuple[SizeCount, ...] = field(default=(), metadata=ROWS)
    row_checks: tuple[RowCount, ...] = field(default=(), metadata=ROWS)
    """What row checks say about kernels and their configs, for ops that declare independent rows."""
    kernel_lines: tuple[KernelLines, ...] = field(default=(), metadata=ROWS)
    """A row for each kernel and device function in the files of launched kernels, in the order of files and lines."""
    op_checks: tuple[OpChecks, ...] = field(default=(), metadata=ROWS)
    """A row for each op on each device that the search was to cover."""
    unchecked: tuple[UncheckedOp, ...] = ()
    """Ops of which no case could be checked, first on any device, then on single ones."""
    untried: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Ops that got none of a kind of check that is possible for them, by kind."""
    promising: tuple[PromisingCase, ...] = field(default=(), metadata=PROMISING)
    """Cases that are worth trying first in the next search: at most 16 of each op on each device."""
    dropped_cases: tuple[str, ...] = field(default=(), metadata=EACH_ONCE)
    """Cases that were to run first, and that their op no longer has, each with the reason."""
    avoided: tuple[AvoidedDraws, ...] = field(default=(), metadata=ROWS)
    """Draws that were dropped because cases like them had all ended early."""
    set_aside: tuple[SetAsideOp, ...] = field(default=(), metadata=ROWS)

    @property
    def checked(self) -> int:
        """Cases that passed or failed."""
        return self.passed + self.failed

    @property
    def unchecked_ops(self) -> tuple[UncheckedOp, ...]:
        """The ops that were checked on no device."""
        return tuple(op for op in self.unchecked if not op.device)

    def failures(self, fail_on: Severity) -> tuple[Finding, ...]:
        """Return the findings that count as failures: no known ones, and only errors unless warnings count too."""
        known = {issue.finding for issue in self.known_findings}
        return tuple(finding for finding in self.findings if counts(finding, fail_on) and finding.id not in known)


def counts(finding: Finding, fail_on: Severity) -> bool:
    """Return True if a finding of this severity makes a command or a test fail."""
    return fail_on is Severity.WARNING or finding.severity is Severity.ERROR
