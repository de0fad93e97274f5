"""The contents of a report: the bugs of stored findings and of campaign reports, each once, and their attached files.

A file that cannot be read is named and left out.  The rest is still reported.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.documents import files
from harness.documents.bisection import BisectionDocument
from harness.documents.campaign import CampaignReport
from harness.documents.chunk import ShardReport
from harness.documents.finding import FindingDocument
from harness.errors import ReplayError
from harness.findings import store
from harness.findings.bisection import stored_bisections
from harness.findings.campaign_report import concluded
from harness.findings.known_issues import NO_ISSUES, KnownIssues
from harness.findings.region import record
from harness.findings.report_merging import report_in
from harness.garbage import collections_deferred
from harness.model.finding import Finding
from harness.model.merging import merged
from harness.model.region import Region
from harness.model.verdict import Severity, Signature
from harness.reports.row_table import RowTable, row_table
from harness.reports.summary import avoided_lines
from harness.search.campaign_statistics import PlanePoint, VerdictCell

NOTHING_RAN = CampaignReport(
    findings=(),
    cases=0,
    passed=0,
    failed=0,
    abstained=0,
    abstain_reasons={},
    seconds=0.0,
    seed=0,
    devices=(),
    versions={},
)
REPRODUCERS = ("repro.py", "repro-kernel.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A file in the folder of a finding."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedBug:
    """One bug to report."""

    finding: Finding
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    other_folders: int = 0
    """Folders of findings with the same signature."""
    link: str = ""
    """The link of the known issue; empty for a new bug."""
    region: Region | None = None
    files: tuple[Attached, ...] = ()
    """Its reproducers."""
    bisections: tuple[BisectionDocument, ...] = ()

    @property
    def severity(self) -> Severity:
        return self.finding.severity


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCampaign:
    """One campaign, under the name of its file."""

    name: str
    """Without the suffix."""
    report: CampaignReport

    @property
    def signatures(self) -> frozenset[Signature]:
        return frozenset(finding.fail.signature for finding in self.report.findings)

    @property
    def all_signatures(self) -> frozenset[Signature]:
        """With those of symptoms."""
        return frozenset(signature for finding in self.report.findings for signature in finding.signatures)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContents:
    """Everything that one report shows."""

    bugs: tuple[ReportedBug, ...]
    """Errors before warnings, new bugs before known ones."""
    campaigns: tuple[ReportedCampaign, ...] = ()
    earlier: tuple[ReportedCampaign, ...] = ()
    """Older ones to compare with, the oldest first."""
    damaged: tuple[str, ...] = ()
    """A message for each file that cannot be read."""
    notices: tuple[str, ...] = ()
    """What is wrong with the list of known issues."""
    together: CampaignReport = field(init=False)
    """The counts of all campaigns."""

    def __post_init__(self) -> None:
        reports = (campaign.report for campaign in self.campaigns)
        object.__setattr__(self, "together", concluded(merged([NOTHING_RAN, *reports]), NO_ISSUES))

    def count(self, severity: Severity) -> int:
        return sum(bug.severity is severity for bug in self.bugs)

    @property
    def avoided(self) -> tuple[str, ...]:
        """What the searches avoided, and which ops they set aside, each in a sentence."""
        return tuple(line for campaign in self.campaigns for line in avoided_lines(campaign.report))

    @property
    def verdicts(self) -> Mapping[VerdictCell, int]:
        """Cases by verdict, of all campaigns together."""
        rows = self.together.verdicts
        return {VerdictCell(row.op, row.device, row.oracle, row.outcome): row.cases for row in rows}

    @property
    def row_table(self) -> RowTable:
        """Whether a row has the same bits in other company, of all campaigns together."""
        return row_table(self.together.row_checks)

    @property
    def tested_sizes(self) -> Mapping[PlanePoint, int]:
        """Cases by size and SM count, of all campaigns together."""
        rows = self.together.tested_sizes
        return {PlanePoint(row.op, row.dim, row.size, row.sm_count, row.outcome): row.cases for row in rows}


def read_contents(
    paths: Iterable[Path], *, earlier: Iterable[Path] = (), issues: KnownIssues = NO_ISSUES, folder: Path = store.FOLDER
) -> ReportContents:
    """Read folders of findings, single findings, and reports of `harness fuzz --json`.

    Args:
        paths: each a folder of findings, the folder or file of one finding, or the file of a report.
        earlier: reports to compare with, the oldest first.
        issues: the known ones.
        folder: holds the regions and reproducers of findings that a report names.
    """
    with collections_deferred():  # thousands of documents have no cycles
        return _read_contents(paths, earlier, issues, folder)


def _read_contents(paths: Iterable[Path], earlier: Iterable[Path], issues: KnownIssues, folder: Path) -> ReportContents:
    damaged: list[str] = []
    bugs: dict[Signature, ReportedBug] = {}
    campaigns: list[ReportedCampaign] = []
    for path in paths:
        match _read(path, damaged):
            case store.Kept() as kept:
                damaged += kept.damaged
                for bug in kept.bugs:
                    bugs.setdefault(bug.finding.fail.signature, _stored(bug, damaged))
            case FindingDocument() as single:
                bugs.setdefault(single.failure, _single(single, _folder_of(single, path, folder), damaged))
            case CampaignReport() as report:
                campaigns.append(ReportedCampaign(name=path.stem, report=report))
            case None:
                pass
    for campaign in campaigns:
        for finding in campaign.report.findings:
            if finding.fail.signature not in bugs:
                bugs[finding.fail.signature] = _reported(finding, campaign.report, folder / finding.id, damaged)
    links = _links(bugs.values(), campaigns, issues)
    return ReportContents(
        bugs=tuple(sorted((_linked(bug, links) for bug in bugs.values()), key=_rank)),
        campaigns=tuple(campaigns),
        earlier=_campaigns(earlier, damaged),
        damaged=tuple(damaged),
        notices=tuple(dict.fromkeys(notice for campaign in campaigns for notice in campaign.report.notices)),
    )


def _read(path: Path, damaged: list[str]) -> store.Kept | FindingDocument | CampaignReport | None:
    """Return what is at the path; None if it cannot be read."""
    file = path / store.FINDING if (path / store.FINDING).is_file() else path
    if file.is_dir():
        return store.load(file, with_cases=False)
    try:
        document = files.read(file, CampaignReport, ShardReport, FindingDocument)
        return document if isinstance(document, FindingDocument) else report_in(document)
    except ReplayError as error:
        damaged.append(str(error))
        return None


def _folder_of(document: FindingDocument, path: Path, folder: Path) -> Path:
    """Return the folder that may hold more about the finding."""
    if path.is_dir():
        return path
    return path.parent if path.name == store.FINDING else folder / document.finding.id


def _campaigns(paths: Iterable[Path], damaged: list[str]) -> tuple[ReportedCampaign, ...]:
    campaigns: list[ReportedCampaign] = []
    for path in paths:
        try:
            report = report_in(files.read(path, CampaignReport, ShardReport))
            campaigns.append(ReportedCampaign(name=path.stem, report=report))
        except ReplayError as error:
            damaged.append(str(error))
    return tuple(campaigns)


def _stored(bug: store.Stored, damaged: list[str]) -> ReportedBug:
    return _bug(bug.finding, bug.versions, bug.folder, len(bug.other_folders), damaged)


def _single(document: FindingDocument, folder: Path, damaged: list[str]) -> ReportedBug:
    finding = document.finding
    try:
        finding = replace(finding, cases=store.cases_of(folder))
    except ReplayError as error:
        damaged.append(str(error))
    return _bug(finding, document.versions, folder, 0, damaged)


def _reported(finding: Finding, report: CampaignReport, folder: Path, damaged: list[str]) -> ReportedBug:
    return _bug(finding, report.versions, folder, 0, damaged)


def _bug(
    finding: Finding, versions: Mapping[str, str], folder: Path, other_folders: int, damaged: list[str]
) -> ReportedBug:
    region, bisections = None, ()
    try:
        region = record.load(folder)
        bisections = stored_bisections.load(folder)
    except ReplayError as error:
        damaged.append(str(error))
    return ReportedBug(
        finding=finding,
        versions=versions,
        other_folders=other_folders,
        region=region,
        files=tuple(_attached(folder, damaged)),
        bisections=bisections,
    )


def _attached(folder: Path, damaged: list[str]) -> Iterator[Attached]:
    for path in (folder / name for name in REPRODUCERS):
        if not path.is_file():
            continue
        try:
            yield Attached(name=path.name, text=path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            damaged.append(f"cannot read {path}: {getattr(error, 'strerror', None) or error}")


def _links(
    bugs: Iterable[ReportedBug], campaigns: Sequence[ReportedCampaign], issues: KnownIssues
) -> Mapping[str, str]:
    """Return the links by finding id; today's known issues override those of a report."""
    reported = {known.finding: known.link for campaign in campaigns for known in campaign.report.known_findings}
    return {**reported, **{known.finding: known.link for known in issues.among(bug.finding for bug in bugs)}}


def _linked(bug: ReportedBug, links: Mapping[str, str]) -> ReportedBug:
    return replace(bug, link=links.get(bug.finding.id, "")) if links else bug


def _rank(bug: ReportedBug) -> tuple[bool, bool, bool, int, str]:
    finding = bug.finding
    return (
        bug.severity is Severity.WARNING,
        bool(bug.link),
        not finding.confirmed,
        -finding.sightings,
        str(finding.fail.signature),
    )
