"""The HTML page: the contents of a report, laid out by the templates."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness.documents.op_checks import SECOND_RUN_WORDS
from harness.model.paired_run import SecondRun
from harness.model.verdict import Outcome, Severity
from harness.oracles import registry
from harness.reports.checkout import Checkout
from harness.reports.contents import ReportContents, ReportedBug
from harness.reports.html import plots
from harness.reports.html.bug_entry import entry_of
from harness.reports.html.filter_choices import choices_of
from harness.reports.html.oracle_grid import grid_of
from harness.reports.html.svg import Drawing, Numbers
from harness.reports.html.templating import environment, page_script
from harness.reports.line_table import conclusion, line_rows
from harness.reports.oracle_pages import OraclePage, page_of
from harness.reports.report_history import Stage, stages
from harness.reports.summary import count_text
from harness.wording import counted

PAGE = "page.html.j2"
MOST_ON_A_PAGE = 500
"""Findings: a browser shows a page of more slowly."""
CHOICES = {"severity": "Severity", "oracle": "Oracle", "op": "Op", "device": "Device", "state": "State"}
"""By name of a trait, the label of the list that filters findings by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePart:
    """One of several pages that share the findings."""

    file: str
    first: int
    """The number of its first finding, from 1."""
    last: int


def pages(
    contents: ReportContents, moment: datetime, checkout: Checkout | None = None, file: str = "report.html"
) -> Iterator[tuple[str, str]]:
    """Yield name and text of each page: one, or several of `MOST_ON_A_PAGE` findings, the worst on the first."""
    path = Path(file)
    starts = range(0, len(contents.bugs), MOST_ON_A_PAGE)
    parts = tuple(
        PagePart(
            file=str(path.with_name(f"{path.stem}-{number}{path.suffix}")) if number > 1 else file,
            first=start + 1,
            last=min(start + MOST_ON_A_PAGE, len(contents.bugs)),
        )
        for number, start in enumerate(starts, 1)
    )
    if len(parts) <= 1:
        yield file, page(contents, moment, checkout)
        return
    for part in parts:
        yield part.file, page(contents, moment, checkout, part, parts)


def page(
    contents: ReportContents,
    moment: datetime,
    checkout: Checkout | None = None,
    part: PagePart | None = None,
    parts: tuple[PagePart, ...] = (),
) -> str:
    """Return the page, which works from disk.

    Args:
        contents: what it shows.
        moment: the time that it shows.
        checkout: where it is made.
        part: the findings that it has; None for all.
        parts: all pages, to go to.
    """
    names = Numbers()
    rows = stages(contents)
    kernel_lines = line_rows(contents.together.kernel_lines)
    bugs = contents.bugs if part is None else contents.bugs[part.first - 1 : part.last]
    # To colour code takes longer than all else, and thousands of findings are not read.
    in_colour = part is None or part.first == 1
    latest = rows[-1] if rows else None
    entries = tuple(entry_of(bug, _change(bug, latest), names, in_colour=in_colour) for bug in bugs)
    return environment().get_template(PAGE).render(
        contents=contents,
        checkout=checkout,
        made=moment.strftime("%Y-%m-%d %H:%M %Z").strip(),
        errors=contents.count(Severity.ERROR),
        warnings=contents.count(Severity.WARNING),
        count_text=count_text(contents.count(Severity.ERROR), contents.count(Severity.WARNING)),
        counted=counted,
        explained=_explained(contents),
        entries=entries,
        part=part,
        parts=parts,
        choices=choices_of([entry.traits for entry in entries], CHOICES),
        script=page_script(),
        grid=grid_of(contents.verdicts),
        second_runs=_second_runs(contents),
        row_table=contents.row_table,
        kernel_lines=kernel_lines,
        lines_conclusion=conclusion(kernel_lines) if kernel_lines else "",
        areas=plots.areas(contents.tested_sizes, names),
        signs=tuple((plots.WORDS[outcome], _sign(outcome, names)) for outcome in Outcome),
        stages=rows,
        curves=plots.curves(rows, names) if rows else (),
    )  # fmt: skip


def _explained(contents: ReportContents) -> Mapping[str, OraclePage]:
    """Return the pages of the oracles that failed; a report of another release may have others, without a page."""
    oracles = {bug.finding.fail.oracle for bug in contents.bugs}
    return {oracle.name: page_of(oracle.name) for oracle in registry.ALL if oracle.name in oracles}


def _change(bug: ReportedBug, latest: Stage | None) -> str:
    if latest is None:
        return ""
    signature = bug.finding.fail.signature
    return "new" if signature in latest.new else "back" if signature in latest.back else "still"


def _second_runs(contents: ReportContents) -> tuple[tuple[SecondRun, str], ...]:
    """Return the kinds of second runs that any op got or could have got, each with its words."""
    kinds = {kind for row in contents.together.op_checks for kind in row.second_runs}
    return tuple((kind, SECOND_RUN_WORDS[kind]) for kind in SecondRun if kind in kinds)


def _sign(outcome: Outcome, names: Numbers) -> str:
    drawing = Drawing(16, 16, title=plots.WORDS[outcome], text="as drawn in the plots", names=names)
    plots.mark(drawing, outcome, (8, 8), 5)
    return str(drawing)
