"""The morning's report in Markdown, for the page of a CI job: the verdict first, then what is new."""

from collections.abc import Iterable, Iterator
from html import escape

from harness.reports.markdown import escaped
from harness.reports.morning import FRESH, GONE_BEFORE, BugGroup, MorningBug, MorningContents, based
from harness.reports.morning_text import night_line, trouble_lines, work_lines
from harness.reports.night_work import rate_text

MOST = 20
"""The most bugs of a group; the page has all."""
MOST_NIGHTS = 14


def morning_markdown(contents: MorningContents, address: str = "") -> str:
    """Return the text.

    Args:
        contents: what it shows.
        address: of the folder where the page is published; bugs then link to their pages.
    """
    return "\n".join(_lines(contents, based(address))) + "\n"


def _lines(contents: MorningContents, base: str) -> Iterator[str]:
    yield f"### {escaped(contents.verdict)}"
    if base:
        yield ""
        yield f"[All bugs and nights]({base}index.html)"
    for group in contents.groups:
        if group.name != GONE_BEFORE:
            yield ""
            yield from _group(group, base)
    if contents.totals:
        yield ""
        yield from _list((night_line(contents.totals), *work_lines(contents.work)))
    if troubles := tuple(trouble_lines(contents)):
        yield ""
        yield from _list(troubles)
    yield from _nights(contents)


def _group(group: BugGroup, base: str) -> Iterator[str]:
    """Yield a group with its bugs in a table, folded unless it is new."""
    is_fresh = group.name in FRESH
    title = f"{group.name} ({len(group.bugs)})"
    yield f"**{escaped(title)}**" if is_fresh else f"<details><summary>{escape(title)}</summary>"
    yield ""
    yield "| bug | | oracle | place | message | search, op, device, release | nights | replay |"
    yield "|---|---|---|---|---|---|---|---|"
    yield from (_row(bug, base) for bug in group.bugs[:MOST])
    if len(group.bugs) > MOST:
        yield ""
        yield f"And {len(group.bugs) - MOST} more."
    if not is_fresh:
        yield ""
        yield "</details>"


def _row(bug: MorningBug, base: str) -> str:
    marks = [str(bug.history.severity)]
    marks += [] if bug.is_confirmed else ["not confirmed"]
    marks += ["known"] if bug.link else []
    place = " ".join(
        part for part in (bug.subject, bug.history.signature.place if bug.history.signature else "") if part
    )
    nights = bug.gone_text or bug.nights_text
    places = "; ".join(map(str, bug.places))
    cells = (", ".join(marks), bug.oracle, place, bug.history.message, places, nights)
    identity = f"[{bug.id}]({base}{bug.page})" if base else bug.id
    replay = f"`{bug.replay_command}`" if bug.replay_command else ""
    return f"| {identity} | {' | '.join(map(escaped, cells))} | {replay} |"


def _list(lines: Iterable[str]) -> Iterator[str]:
    yield from (f"- {escaped(line)}" for line in lines)


def _nights(contents: MorningContents) -> Iterator[str]:
    nights = contents.history.nights[-MOST_NIGHTS:]
    if len(nights) < 2:
        return
    yield ""
    yield f"<details><summary>{escape(f'the last {len(nights)} nights')}</summary>"
    yield ""
    yield "| night | cases | checked | cases/s | hours | bugs | runs killed |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for night in reversed(nights):
        figures = (
            f"{night.cases:,}",
            f"{night.checked:,}",
            rate_text(night.rate),
            f"{night.hours:.1f}",
            str(len(night.bugs)),
            str(night.killed),
        )
        yield f"| {escaped(night.night)} | {' | '.join(figures)} |"
    yield ""
    yield "</details>"
