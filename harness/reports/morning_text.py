"""The morning's report for a terminal: the verdict, what is new, and in a line or two all else."""

from collections.abc import Iterator

from harness.model.verdict import Severity
from harness.night.bug_history import BugState, NightTotals
from harness.reports.morning import FRESH, GONE_BEFORE, MorningBug, MorningContents
from harness.reports.night_work import NightWork, rate_text
from harness.reports.summary import name_of, named
from harness.wording import counted

MOST = 10
"""The most bugs of a group, of those that are not new; the page has all."""
MOST_REASONS = 5
MOST_NIGHTS = 5


def morning_text(contents: MorningContents) -> Iterator[str]:
    """Yield the lines: the verdict, new bugs, other bugs, the work of the night."""
    yield contents.verdict
    if contents.totals is not None:
        yield night_line(contents.totals)
    for group in contents.groups:
        if group.name == GONE_BEFORE:
            continue
        yield ""
        yield f"{group.name} ({len(group.bugs)})"
        shown = group.bugs if group.name in FRESH else group.bugs[:MOST]
        for bug in shown:
            yield from _fresh(bug) if group.name in FRESH else _line(bug)
        if len(group.bugs) > len(shown):
            yield f"  and {len(group.bugs) - len(shown)} more"
    if rest := (*work_lines(contents.work), *trouble_lines(contents)):
        yield ""
        yield from rest
    if len(contents.history.nights) > 1:
        yield "nights before:"
        yield from (f"  {night_line(night)}" for night in reversed(contents.history.nights[-MOST_NIGHTS - 1 : -1]))


def night_line(totals: NightTotals) -> str:
    """Return the figures of a night: `2026-11-28: 960 cases in 2.0 h (0.1/s), 900 checked, 12 failed, 4 bugs`."""
    killed = f", {counted(totals.killed, 'run')} killed" if totals.killed else ""
    return (
        f"{totals.night}: {counted(totals.cases, 'case')} in {totals.hours:.1f} h ({rate_text(totals.rate)}/s), "
        f"{totals.checked:,} checked, {totals.failed:,} failed, {counted(len(totals.bugs), 'bug')}{killed}"
    )


def work_lines(work: NightWork) -> Iterator[str]:
    """Yield each search, what could not be checked or was not tried, and which chunks failed."""
    for search in work.searches:
        releases = f" ({', '.join(search.releases)})" if search.releases else ""
        yield (
            f"{search.search}{releases}: {counted(search.cases, 'case')} of {counted(search.units, 'unit')} in "
            f"{search.hours:.1f} h ({rate_text(search.rate)}/s), {search.checked:,} checked, {search.failed:,} failed"
        )
    for reason in work.abstained[:MOST_REASONS]:
        yield f"not checked {reason.cases:>5}  {reason.reason} ({named(map(name_of, reason.ops))})"
    if (more := len(work.abstained) - MOST_REASONS) > 0:
        yield f"not checked for {counted(more, 'more reason')}"
    if work.unchecked:
        yield f"checked in no night: {named(f'{name_of(unit.op)} on {unit.device}' for unit in work.unchecked)}"
    if work.untried:
        yield f"not tried: {untried_text(work)}"
    for chunks in work.failed:
        times = f", {chunks.count} times" if chunks.count > 1 else ""
        yield f"failed: {chunks.search}, {name_of(chunks.op)} on {chunks.device}{times}: {chunks.reason}"


def untried_text(work: NightWork) -> str:
    """Return how many units were not tried, and how long ago the oldest was: for one line."""
    never = [unit for unit in work.untried if not unit.last]
    tried = [unit for unit in work.untried if unit.last]
    parts = [counted(len(work.untried), "unit")]
    if never:
        parts.append(f"never: {named(f'{name_of(unit.op)} on {unit.device}' for unit in never)}")
    if tried:
        oldest = tried[0]
        ago = counted(oldest.nights_ago, "night")
        parts.append(f"longest ago: {name_of(oldest.op)} on {oldest.device}, {ago}")
    return "; ".join(parts)


def trouble_lines(contents: MorningContents) -> Iterator[str]:
    """Yield the GPUs that were set aside, damaged files, runs that were interrupted, and notes on known issues."""
    totals = contents.totals
    if totals is not None:
        yield from (f"GPU set aside: {line}" for line in totals.quarantined)
        if interrupted := sum(run.ended is not None and run.ended.is_interrupted for run in totals.runs):
            yield f"interrupted: {counted(interrupted, 'run')}"
    yield from (f"not readable: {message}" for message in contents.damaged)
    yield from (f"known issue: {note.issue.signature}: {note.note}" for note in contents.issue_notes)
    if lines := sum(len(kernel.lines) for kernel in contents.unexecuted):
        yield f"never executed: {counted(lines, 'line')} of {counted(len(contents.unexecuted), 'kernel')}"


def _fresh(bug: MorningBug) -> Iterator[str]:
    where = f"{bug.subject}  {bug.place}".rstrip()
    yield f"  {bug.history.severity.upper()}  {bug.oracle}  {where}  {bug.id}{_marks(bug)}"
    yield f"    {bug.history.message}"
    yield from (f"    {place}" for place in bug.places)
    if bug.history.state is BugState.BACK:
        yield f"    {bug.nights_text}"
    if bug.replay_command:
        yield f"    {bug.replay_command}"


def _line(bug: MorningBug) -> Iterator[str]:
    severity = "warning  " if bug.history.severity is Severity.WARNING else ""
    since = bug.gone_text or bug.nights_text
    where = f"{bug.subject}  {bug.place}".rstrip()
    yield f"  {bug.id}  {severity}{bug.oracle}  {where}  {since}{_marks(bug)}"


def _marks(bug: MorningBug) -> str:
    unconfirmed = "" if bug.is_confirmed else "  (not confirmed)"
    return f"{unconfirmed}  (known: {bug.link})" if bug.link else unconfirmed
