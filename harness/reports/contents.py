"""What a report is made of: the bugs of folders and of campaigns' reports, each once, and what lies beside them.

A file that cannot be read is named and left out; the rest is still reported.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.errors import ReplayError
from harness.findings import store
from harness.findings.campaign_report import Report
from harness.findings.campaigns import read_campaign
from harness.findings.known_issues import NO_ISSUES, KnownIssues
from harness.model.finding import Finding
from harness.model.region import Region
from harness.model.verdict import Severity, Signature
from harness.region import record
from harness.search.campaign_statistics import Cell, PlanePoint

REPRODUCERS = ("repro.py", "repro-kernel.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A file that lies beside a finding."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedBug:
    """One bug to report."""

    finding: Finding
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    others: int = 0
    """Folders of findings with the same signature."""
    link: str = ""
    """Of the known issue, where it is one."""
    region: Region | None = None
    files: tuple[Attached, ...] = ()
    """Its reproducers."""

    @property
    def severity(self) -> Severity:
        """That of its signature."""
        return self.finding.fail.signature.severity


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCampaign:
    """One search, as its report tells it."""

    name: str
    """Of the file, without its suffix."""
    report: Report

    @property
    def signatures(self) -> frozenset[Signature]:
        """Of its findings."""
        return frozenset(finding.fail.signature for finding in self.report.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Everything that one report tells."""

    bugs: tuple[ReportedBug, ...]
    """Errors before warnings, news before what is known."""
    campaigns: tuple[ReportedCampaign, ...] = ()
    earlier: tuple[ReportedCampaign, ...] = ()
    """Older ones to compare with, the oldest first."""
    damaged: tuple[str, ...] = ()
    """What could not be read, and why."""
    notices: tuple[str, ...] = ()
    """What is wrong with the list of known issues."""

    def count(self, severity: Severity) -> int:
        """How many bugs are so bad."""
        return sum(bug.severity is severity for bug in self.bugs)

    @property
    def cases(self) -> int:
        """Of all campaigns."""
        return sum(one.report.cases for one in self.campaigns)

    @property
    def seconds(self) -> float:
        """Of all searches."""
        return sum(one.report.seconds for one in self.campaigns)

    @property
    def reasons(self) -> tuple[tuple[str, int], ...]:
        """Why cases abstained, the most frequent first."""
        total = Counter[str]()
        for one in self.campaigns:
            total.update(one.report.reasons)
        return tuple(total.most_common())

    @property
    def verdicts(self) -> Mapping[Cell, int]:
        """Of all campaigns together."""
        total = Counter[Cell]()
        for one in self.campaigns:
            total.update(one.report.verdicts)
        return total

    @property
    def area(self) -> Mapping[PlanePoint, int]:
        """Of all campaigns together."""
        total = Counter[PlanePoint]()
        for one in self.campaigns:
            total.update(one.report.area)
        return total


def gather(
    paths: Iterable[Path], *, earlier: Iterable[Path] = (), issues: KnownIssues = NO_ISSUES, folder: Path = store.FOLDER
) -> Gathered:
    """What the paths hold: folders of findings, and reports of `harness fuzz --json`.

    Args:
        paths: each a folder or a file.
        earlier: reports to compare with, the oldest first.
        issues: the known ones.
        folder: where what lies beside a report's findings is looked for.
    """
    given = tuple(paths)
    damaged: list[str] = []
    bugs: dict[Signature, ReportedBug] = {}
    for path in given:
        if path.is_dir():
            kept = store.load(path)
            damaged += kept.damaged
            for one in kept.bugs:
                bugs.setdefault(one.finding.fail.signature, _stored(one, damaged))
    campaigns = _campaigns((path for path in given if not path.is_dir()), damaged)
    for campaign in campaigns:
        for finding in campaign.report.findings:
            if finding.fail.signature not in bugs:
                bugs[finding.fail.signature] = _reported(finding, campaign.report, folder / finding.id, damaged)
    links = _links(bugs.values(), campaigns, issues)
    return Gathered(
        bugs=tuple(sorted((replace(bug, link=links.get(bug.finding.id, "")) for bug in bugs.values()), key=_rank)),
        campaigns=campaigns,
        earlier=_campaigns(earlier, damaged),
        damaged=tuple(damaged),
        notices=tuple(dict.fromkeys(notice for one in campaigns for notice in one.report.notices)),
    )


def _campaigns(paths: Iterable[Path], damaged: list[str]) -> tuple[ReportedCampaign, ...]:
    found: list[ReportedCampaign] = []
    for path in paths:
        try:
            found.append(ReportedCampaign(name=path.stem, report=read_campaign(path)))
        except ReplayError as error:
            damaged.append(str(error))
    return tuple(found)


def _stored(one: store.Stored, damaged: list[str]) -> ReportedBug:
    return _bug(one.finding, one.versions, one.folder, len(one.others), damaged)


def _reported(finding: Finding, report: Report, folder: Path, damaged: list[str]) -> ReportedBug:
    return _bug(finding, report.versions, folder, 0, damaged)


def _bug(finding: Finding, versions: Mapping[str, str], folder: Path, others: int, damaged: list[str]) -> ReportedBug:
    mapped = None
    try:
        mapped = record.load(folder)
    except ReplayError as error:
        damaged.append(str(error))
    return ReportedBug(
        finding=finding, versions=versions, others=others, region=mapped, files=tuple(_attached(folder, damaged))
    )


def _attached(folder: Path, damaged: list[str]) -> Iterable[Attached]:
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
    """By the finding's id; what is known today counts for more than what a report says was."""
    reported = {known.finding: known.issue.link for one in campaigns for known in one.report.known}
    return {**reported, **{known.finding: known.issue.link for known in issues.among(bug.finding for bug in bugs)}}


def _rank(bug: ReportedBug) -> tuple[bool, bool, bool, int, str]:
    finding = bug.finding
    return (
        bug.severity is Severity.WARNING,
        bool(bug.link),
        not finding.confirmed,
        -finding.sightings,
        str(finding.fail.signature),
    )
