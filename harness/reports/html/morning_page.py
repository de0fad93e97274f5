"""The morning's page: a folder of static files, with a page for each bug, so that the first page stays small for years.

index.html       what is new, the table of bugs, and the work of the night
history.html     all nights, and the bugs that are gone since earlier ones
bugs/<id>.html   one bug: picture, source, smallest case, commands, its nights
issues/<id>.md   its text for a tracker
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.documents import files
from harness.errors import store_error
from harness.oracles import registry
from harness.reports.html.bug_entry import BugEntry, entry_of
from harness.reports.html.filter_choices import Traits, choices_of
from harness.reports.html.night_strip import night_strip
from harness.reports.html.svg import Numbers
from harness.reports.html.templating import environment, page_script
from harness.reports.morning import FRESH, GONE_BEFORE, GROUPS, MorningBug, MorningContents
from harness.reports.night_issues import ISSUES, has_issue, write_issues
from harness.reports.night_work import rate_text
from harness.reports.oracle_pages import OraclePage, page_of
from harness.reports.summary import name_of
from harness.wording import counted

INDEX, HISTORY, BUGS = "index.html", "history.html", "bugs"
MOST_NIGHTS = 14
"""Nights on the first page."""
MOST_CARDS = 40
"""New bugs, and bugs that are back, with a card of their own; the table has all."""
MOST_LOOKS = 30
"""Looks of a bug that are not folded."""
MOST_UNITS = 30
"""Units that were not tried that are not folded."""
CHOICES = {
    "state": "State",
    "severity": "Severity",
    "search": "Found by",
    "oracle": "Oracle",
    "op": "Op",
    "device": "Device",
    "release": "Release",
}
"""By name of a trait, the label of the list that filters bugs by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BugRow:
    """One bug in a table of bugs."""

    bug: MorningBug
    anchor: str
    """Of the bug on its page: its card there, or else the row."""
    traits: Traits
    has_card: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BugCard:
    """One new bug on the first page."""

    row: BugRow
    entry: BugEntry | None
    """None if the memory has lost the smallest case."""


def write_morning_page(contents: MorningContents, folder: Path) -> Path:
    """Write the page, those of its bugs and the texts for trackers, and return the first page.

    Pages of bugs that the memory no longer has stay: links to them may be in use.  It needs the extra `report`.

    Raises:
        StoreError: they cannot be written.
    """
    write_issues(contents, folder)
    try:
        (folder / BUGS).mkdir(parents=True, exist_ok=True)
        for name, text in morning_pages(contents):
            files.write_text(text, folder / name)
    except OSError as error:
        raise store_error(error, folder) from None
    return folder / INDEX


def morning_pages(contents: MorningContents) -> Iterator[tuple[str, str]]:
    """Yield name and text of each page, the first page last: what it links to is there then."""
    for bug in contents.bugs:
        yield bug.page, _bug_page(contents, bug)
    yield HISTORY, _render("morning_history.html.j2", contents, rows=_rows(contents, is_earlier=True))
    yield INDEX, _index(contents)


def _index(contents: MorningContents) -> str:
    names = Numbers()
    rows = _rows(contents, is_earlier=False)
    cards = tuple(
        BugCard(row=row, entry=entry_of(row.bug.reported, row.bug.group, names, name=row.bug.name))
        if row.bug.reported
        else BugCard(row=row, entry=None)
        for row in rows
        if row.has_card
    )
    return _render(
        "morning.html.j2",
        contents,
        cards={name: [card for card in cards if card.row.bug.group == name] for name in FRESH},
        rows=rows,
        choices=choices_of([row.traits for row in rows], CHOICES),
        groups=[name for name in GROUPS if name != GONE_BEFORE],
        most_nights=MOST_NIGHTS,
        most_units=MOST_UNITS,
    )


def _bug_page(contents: MorningContents, bug: MorningBug) -> str:
    names = Numbers()
    looks = tuple(reversed(bug.history.looks))
    return _render(
        "morning_bug.html.j2",
        contents,
        bug=bug,
        entry=entry_of(bug.reported, bug.group, names, name=bug.name) if bug.reported else None,
        explained=_explained(bug),
        strip=night_strip(bug.history, [totals.night for totals in contents.history.nights], names),
        looks=looks[:MOST_LOOKS],
        older_looks=looks[MOST_LOOKS:],
        issue=f"../{ISSUES}/{bug.id}.md" if has_issue(bug) else "",
    )


def _explained(bug: MorningBug) -> Mapping[str, OraclePage]:
    """Return the page of the bug's oracle; the memory of another release may have others, without a page."""
    return {oracle.name: page_of(oracle.name) for oracle in registry.ALL if oracle.name == bug.oracle}


def _render(template: str, contents: MorningContents, **values: object) -> str:
    return environment().get_template(template).render(
        contents=contents, script=page_script(), counted=counted, name_of=name_of, rate_text=rate_text, **values
    )  # fmt: skip


def _rows(contents: MorningContents, *, is_earlier: bool) -> tuple[BugRow, ...]:
    """Return the rows of the bugs that are gone since earlier nights, or of all others."""
    carded = {bug.id for group in contents.groups if group.name in FRESH for bug in group.bugs[:MOST_CARDS]}
    return tuple(
        _row(bug, has_card=bug.id in carded) for bug in contents.bugs if (bug.group == GONE_BEFORE) is is_earlier
    )


def _row(bug: MorningBug, *, has_card: bool) -> BugRow:
    known = ("known",) if bug.link else ()
    confirmed = () if bug.is_confirmed else ("not confirmed",)
    return BugRow(
        bug=bug,
        anchor=f"bug-{bug.id}",
        has_card=has_card,
        traits={
            "state": (bug.group, *known, *confirmed),
            "severity": (str(bug.history.severity),),
            "search": tuple(dict.fromkeys(place.search for place in bug.places)),
            "oracle": (bug.oracle,),
            "op": tuple(dict.fromkeys(place.op for place in bug.places)),
            "device": tuple(dict.fromkeys(place.device for place in bug.places)),
            "release": tuple(dict.fromkeys(place.release or "installed" for place in bug.places)),
        },
    )
