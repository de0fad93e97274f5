"""The morning's report as JSON, for hooks that write to a chat or a tracker."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.documents.kinds import SCHEMA_VERSION, Kind
from harness.model.verdict import Severity
from harness.night.bug_history import BugState
from harness.reports.morning import GONE_BEFORE, MorningBug, MorningContents, based


@dataclass(frozen=True, slots=True, kw_only=True)
class MorningEntry:
    """One bug."""

    id: str
    state: BugState
    severity: Severity
    is_confirmed: bool
    """True if it repeated alone in a fresh process."""
    message: str
    signature: str
    """As `known_issues.toml` names it; empty if the memory has lost it."""
    searches: tuple[str, ...]
    """The names of those that saw it."""
    ops: tuple[str, ...]
    """Their ids: `suites/fla/norm.py:rms_norm`."""
    devices: tuple[str, ...]
    """The slugs."""
    releases: tuple[str, ...]
    """Those that showed it, in the order of the nights; installed libraries are not named."""
    first_night: str
    """The first night that saw it; empty if the memory has lost it."""
    last_night: str
    nights_seen: int
    nights_looked: int
    """Nights that saw it or looked for it in vain."""
    gone_since: str = ""
    """The first night that looked for it in vain; empty unless it is gone."""
    gone_with: str = ""
    """The release of that night."""
    known: str = ""
    """The link of the known issue; empty for other bugs."""
    replay: str = ""
    """The command that replays it where the memory is; empty if the smallest case is lost."""
    page: str
    """Its page: below the folder of the morning's page, or the whole address if that is published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MorningDocument:
    """The verdict of a night, and the bugs that were not gone before it."""

    kind: Kind = Kind.MORNING
    schema_version: int = SCHEMA_VERSION
    night: str
    """Its name; empty if there was none."""
    verdict: str
    """One line: `night 2026-11-28: 2 new, 1 back; 5 still there`."""
    counts: Mapping[BugState, int]
    """Bugs by state, each state named; `gone` are those that are gone since this night."""
    cases: int
    checked: int
    """Cases that passed or failed."""
    failed: int
    seconds: float
    """Of searching, on all machines."""
    runs_killed: int
    """Runs that did not come to their end."""
    missing: tuple[str, ...] = ()
    """The parts of a shared night of which nothing is known: `2/8`."""
    bugs: tuple[MorningEntry, ...]
    """New ones first."""


def morning_document(contents: MorningContents, address: str = "") -> MorningDocument:
    """Return the document.

    Args:
        contents: what it shows.
        address: of the folder where the page is published.
    """
    totals, bugs = contents.totals, tuple(bug for bug in contents.bugs if bug.group != GONE_BEFORE)
    return MorningDocument(
        night=contents.night,
        verdict=contents.verdict,
        counts={state: sum(bug.history.state is state for bug in bugs) for state in BugState},
        cases=totals.cases if totals else 0,
        checked=totals.checked if totals else 0,
        failed=totals.failed if totals else 0,
        seconds=totals.seconds if totals else 0.0,
        runs_killed=totals.killed if totals else 0,
        missing=totals.missing if totals else (),
        bugs=tuple(_entry(bug, based(address)) for bug in bugs),
    )


def _entry(bug: MorningBug, base: str) -> MorningEntry:
    history = bug.history
    return MorningEntry(
        id=bug.id,
        state=history.state,
        severity=history.severity,
        is_confirmed=bug.is_confirmed,
        message=history.message,
        signature=str(history.signature or ""),
        searches=history.searches,
        ops=history.ops,
        devices=history.devices,
        releases=history.releases,
        first_night=history.first,
        last_night=history.last,
        nights_seen=len(history.nights),
        nights_looked=history.nights_looked,
        gone_since=history.gone_since,
        gone_with=history.gone_with,
        known=bug.link,
        replay=bug.replay_command,
        page=f"{base}{bug.page}",
    )
