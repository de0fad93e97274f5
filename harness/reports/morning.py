"""The contents of a morning's report, for all its forms: what is new, back, still there and gone, and what nights did.

Pure: it follows from the history of nights, the known issues and their day.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

from harness.findings.known_issues import KnownIssue, KnownIssues
from harness.model.executed_lines import ranges_of
from harness.night.bug_history import BugHistory, BugState, Look, NightHistory, NightTotals, Unit
from harness.night.night_memory import FINDINGS
from harness.reports.contents import ReportContents, ReportedBug, read_contents
from harness.reports.night_work import NightWork, work_of
from harness.reports.summary import name_of
from harness.wording import counted

SOON = timedelta(days=14)
"""How long before its day a known issue is named."""
MOST_PARTS = 4
"""Missing parts of a night that are named."""
NOTHING_STORED = ReportContents(bugs=())
NO_NIGHT = "no night has run yet"
NOTHING_CHECKED = "nothing could be checked: this says nothing about the kernels"


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class BugPlace:
    """Where a bug shows."""

    search: str
    op: str
    """Its name."""
    device: str
    """The slug."""
    release: str
    """That of the latest sighting; empty for installed libraries."""

    def __str__(self) -> str:
        return " · ".join(part for part in (self.search, self.op, self.device, self.release) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class MorningBug:
    """One bug of all nights."""

    history: BugHistory
    reported: ReportedBug | None
    """With the smallest case; None if the memory has lost it."""
    group: str
    """The state; `gone before` for one that an earlier night missed already."""
    places: tuple[BugPlace, ...]
    name: str
    """How commands name it: its folder in the memory."""
    link: str = ""
    """Of the known issue; empty for others."""

    @property
    def id(self) -> str:
        return self.history.id

    @property
    def is_confirmed(self) -> bool:
        """True if it repeated alone in a fresh process."""
        return self.history.is_confirmed or bool(self.history.finding and self.history.finding.confirmed)

    @property
    def page(self) -> str:
        """Its page, below the folder of the morning's page."""
        return f"bugs/{self.id}.html"

    @property
    def subject(self) -> str:
        """Kernel and op, as far as they are known."""
        kernel = self.history.signature.kernel if self.history.signature else ""
        ops = ", ".join(name_of(op) for op in self.history.ops)
        return " in ".join(part for part in (kernel, ops) if part) or "unknown"

    @property
    def place(self) -> str:
        """The statement, result or class of messages of its signature."""
        return self.history.signature.place if self.history.signature else ""

    @property
    def oracle(self) -> str:
        return self.history.signature.oracle if self.history.signature else "unknown"

    @property
    def replay_command(self) -> str:
        """Empty if the smallest case is lost."""
        finding = self.history.finding
        return finding.replay_command.replace(finding.id, self.name, 1) if finding else ""

    @property
    def nights_text(self) -> str:
        """When it was seen: `2026-11-02 to 2026-11-28, in 20 of 26 nights that looked for it`."""
        bug = self.history
        if not bug.nights:
            return "the nights that saw it are lost"
        span = bug.first if bug.first == bug.last else f"{bug.first} to {bug.last}"
        if bug.nights_looked == 1:
            return span
        return f"{span}, in {len(bug.nights)} of {counted(bug.nights_looked, 'night')} that looked for it"

    @property
    def gone_text(self) -> str:
        """Since when it is gone, and with which release; empty if it is not."""
        bug = self.history
        return (
            f"gone since {bug.gone_since}{f' with {bug.gone_with}' if bug.gone_with else ''}" if bug.gone_since else ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BugGroup:
    """The bugs of one state."""

    name: str
    meaning: str
    bugs: tuple[MorningBug, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceCount:
    """How many bugs of each group one place has."""

    place: BugPlace
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueNote:
    """What to do about an entry of the known issues."""

    issue: KnownIssue
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexecutedLines:
    """The lines of a kernel that no case has executed."""

    file: str
    kernel: str
    lines: tuple[int, ...]

    @property
    def ranges(self) -> str:
        """The lines as `3-5, 9`."""
        return ", ".join(f"{low}-{high}" if low < high else str(low) for low, high in ranges_of(self.lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class MorningContents:
    """Everything that the report of a morning shows."""

    history: NightHistory
    bugs: tuple[MorningBug, ...]
    """Those of the latest night first, as `NightHistory.bugs`."""
    work: NightWork
    issue_notes: tuple[IssueNote, ...]
    unexecuted: tuple[UnexecutedLines, ...]
    damaged: tuple[str, ...]
    """A message for each part of the memory that cannot be read."""

    @property
    def night(self) -> str:
        """The name of the latest night; empty if there was none."""
        return self.history.latest

    @property
    def totals(self) -> NightTotals | None:
        """Those of the latest night."""
        return self.history.nights[-1] if self.history.nights else None

    @property
    def groups(self) -> tuple[BugGroup, ...]:
        """The groups with bugs, what is new first."""
        grouped = (
            BugGroup(name=name, meaning=meaning, bugs=tuple(bug for bug in self.bugs if bug.group == name))
            for name, meaning in GROUPS.items()
        )
        return tuple(group for group in grouped if group.bugs)

    def count(self, group: str) -> int:
        return sum(bug.group == group for bug in self.bugs)

    @property
    def verdict(self) -> str:
        """One line: `night 2026-11-28: 2 new, 1 back; 5 still there, 1 gone; 1 of 2 runs did not come to the end`."""
        totals = self.totals
        standing = ", ".join(self._counted(STANDING))
        killed = (
            f"{totals.killed} of {counted(len(totals.runs), 'run')} did not come to the end"
            if totals and totals.killed
            else ""
        )
        missing = f"not here: {named_parts(totals.missing)}" if totals and totals.missing else ""
        return "; ".join(part for part in (self.headline, standing, killed, missing) if part)

    @property
    def headline(self) -> str:
        """The beginning of the verdict: `night 2026-11-28: 2 new, 1 back`."""
        totals = self.totals
        if totals is None:
            return NO_NIGHT
        nothing = "nothing new" if totals.checked else NOTHING_CHECKED
        return f"night {totals.night}: {', '.join(self._counted((BugState.NEW, BugState.BACK))) or nothing}"

    def _counted(self, groups: Iterable[str]) -> Iterator[str]:
        for name in groups:
            bugs = [bug for bug in self.bugs if bug.group == name]
            known = sum(bool(bug.link) for bug in bugs)
            if bugs:
                yield f"{len(bugs)} {name}{f' ({known} known)' if known else ''}"

    @property
    def place_counts(self) -> tuple[PlaceCount, ...]:
        """The places of bugs that are not gone before, each with its counts."""
        counts: dict[BugPlace, dict[str, int]] = {}
        for bug in self.bugs:
            for place in bug.places if bug.group != GONE_BEFORE else ():
                of_place = counts.setdefault(place, {})
                of_place[bug.group] = of_place.get(bug.group, 0) + 1
        return tuple(PlaceCount(place=place, counts=counts[place]) for place in sorted(counts))


GONE_BEFORE = "gone before"
GROUPS: Mapping[str, str] = {
    BugState.NEW: "No night before had seen them.",
    BugState.BACK: "They were gone, and show again.",
    BugState.STILL_THERE: "An earlier night saw them too.",
    BugState.FLAKY: "They come and go while the sources stay the same.",
    BugState.GONE: "The night ran their smallest cases, which do not show them any more.",
    BugState.NOT_LOOKED_FOR: "The night did not run their smallest cases; they may still be there.",
    GONE_BEFORE: "Gone since an earlier night.",
}
"""By group, in order, what it holds."""
FRESH = frozenset({BugState.NEW, BugState.BACK})
STANDING = (BugState.STILL_THERE, BugState.FLAKY, BugState.NOT_LOOKED_FOR, BugState.GONE)


def morning_contents(
    history: NightHistory,
    issues: KnownIssues,
    *,
    stored: ReportContents = NOTHING_STORED,
    units: Iterable[Unit] = (),
    unexecuted: Iterable[UnexecutedLines] = (),
) -> MorningContents:
    """Return what a morning's report shows.

    Args:
        history: that of all nights.
        issues: the known ones, with today's date.
        stored: what the memory's store adds to findings, from `read_stored`.
        units: all that a night may try; those of earlier nights if there are none.
        unexecuted: lines of kernels that no case has executed.
    """
    by_id = {bug.finding.id: bug for bug in stored.bugs}
    live = {
        known.finding: known.link
        for known in issues.among(bug.finding for bug in history.bugs if bug.finding is not None)
    }
    bugs = tuple(_bug(bug, history, by_id.get(bug.id), live.get(bug.id, "")) for bug in history.bugs)
    return MorningContents(
        history=history,
        bugs=bugs,
        work=work_of(history, units),
        issue_notes=tuple(_issue_notes(history, issues)) if history.nights else (),
        unexecuted=tuple(unexecuted),
        damaged=tuple(dict.fromkeys((*history.memory.damaged, *stored.damaged))),
    )


def read_stored(history: NightHistory) -> ReportContents:
    """Read what the memory's store adds to each finding: versions, the region, reproducers, bisections."""
    place = history.memory.folder / FINDINGS
    return read_contents([place], folder=place) if place.is_dir() else NOTHING_STORED


def named_parts(parts: Sequence[str]) -> str:
    """Return `part 2/8` or `parts 2/8, 3/8 and 5 more`."""
    more = f" and {len(parts) - MOST_PARTS} more" if len(parts) > MOST_PARTS else ""
    return f"part{'s' if len(parts) > 1 else ''} {', '.join(parts[:MOST_PARTS])}{more}"


def based(address: str) -> str:
    """Return the address of a folder with a slash at its end; empty if there is none."""
    return f"{address.rstrip('/')}/" if address else ""


def _bug(bug: BugHistory, history: NightHistory, reported: ReportedBug | None, link: str) -> MorningBug:
    is_earlier = bug.state is BugState.GONE and bug.gone_since != history.latest
    if reported is None and bug.finding is not None:
        reported = ReportedBug(finding=bug.finding)
    return MorningBug(
        history=bug,
        reported=replace(reported, link=link) if reported else None,
        group=GONE_BEFORE if is_earlier else bug.state,
        places=tuple(_places(bug.seen)),
        name=_name(history.memory.folder, bug.id),
        link=link,
    )


def _name(memory: Path, identity: str) -> str:
    """Return how commands name a bug of a memory."""
    return shlex.quote((memory / FINDINGS / identity).as_posix())


def _places(seen: Iterable[Look]) -> Iterator[BugPlace]:
    latest = {(look.search, look.device): look for look in seen}
    places = {
        BugPlace(search=look.search, op=name_of(look.sighting.op), device=look.device, release=look.release)
        for look in latest.values()
        if look.sighting is not None
    }
    yield from sorted(places)


def _issue_notes(history: NightHistory, issues: KnownIssues) -> Iterator[IssueNote]:
    """Yield a note for each entry that expires soon or has expired, and for each that seems to be out of date."""
    for issue in issues.issues:
        own = KnownIssues(issues=(issue,), today=date.min)
        bugs = [bug for bug in history.bugs if bug.finding is not None and own.among((bug.finding,))]
        left = issue.expires - issues.today
        if not bugs:
            yield IssueNote(issue=issue, note="no night has seen it; is the entry still needed?")
        elif not any(bug.is_open for bug in bugs):
            yield IssueNote(issue=issue, note="gone in each search; is it fixed?")
        elif left <= timedelta(0):
            yield IssueNote(issue=issue, note=f"expired on {issue.expires}; it counts again")
        elif left <= SOON:
            yield IssueNote(issue=issue, note=f"expires on {issue.expires}, in {counted(left.days, 'day')}")
