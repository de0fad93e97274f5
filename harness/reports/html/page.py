"""The HTML page: the contents of a report, laid out by the templates."""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.documents.op_checks import SECOND_RUN_WORDS
from harness.findings.region.record import sentences
from harness.model.finding import Finding
from harness.model.paired_run import SecondRun
from harness.model.picture import Picture, Span
from harness.model.verdict import Outcome, Severity
from harness.oracles import registry
from harness.reports import region_plot
from harness.reports.checkout import Checkout
from harness.reports.contents import Attached, ReportContents, ReportedBug
from harness.reports.finding_text import facts
from harness.reports.html import plots
from harness.reports.html.code import Line, coloured, lines_of
from harness.reports.html.oracle_grid import grid_of
from harness.reports.html.pictures import Drawn, draw
from harness.reports.html.svg import Drawing, Numbers
from harness.reports.oracle_pages import OraclePage, page_of
from harness.reports.report_history import Stage, stages
from harness.reports.summary import count_text
from harness.wording import counted

STYLE, PAGE, SCRIPT = "style.css", "page.html.j2", "page.js"
MOST_ON_A_PAGE = 500
"""Findings: a browser shows a page of more slowly."""
CODE = re.compile("`([^`]+)`")
CHOICES = {"severity": "Severity", "oracle": "Oracle", "op": "Op", "device": "Device", "state": "State"}
"""By name of a trait, the label of the list that filters findings by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterChoice:
    """A trait that differs between findings, and its values."""

    name: str
    label: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BugEntry:
    """One bug, as the template needs it."""

    bug: ReportedBug
    anchor: str
    subject: str
    """Kernel and op."""
    change: str
    """`new`, `back` or `still`, compared with the report before; empty without one."""
    traits: Mapping[str, tuple[str, ...]]
    """What the lists of the page filter by; `CHOICES` has the names."""
    repeat_rate: float
    """The share of repeats that showed it, for sorting; negative if there were none."""
    commands: tuple[tuple[str, str], ...]
    """By label, what to run next."""
    facts: tuple[tuple[str, str], ...]
    pictures: tuple[Drawn, ...]
    """In the smallest case."""
    first_pictures: tuple[Drawn, ...]
    """In the first case; none if that is the smallest case."""
    code: tuple[Line, ...]
    region_sentences: tuple[str, ...]
    region_plot: str
    files: tuple[Attached, ...]

    @property
    def finding(self) -> Finding:
        return self.bug.finding


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
    bugs = contents.bugs if part is None else contents.bugs[part.first - 1 : part.last]
    # To colour code takes longer than all else, and thousands of findings are not read.
    in_colour = part is None or part.first == 1
    entries = tuple(_entry(bug, rows[-1] if rows else None, names, in_colour=in_colour) for bug in bugs)
    script = files("harness.reports.html").joinpath("templates", SCRIPT).read_text(encoding="utf-8")
    return _environment().get_template(PAGE).render(
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
        choices=tuple(_choices(entries)),
        script=script,
        script_hash=_hash(script),
        grid=grid_of(contents.verdicts),
        second_runs=_second_runs(contents),
        row_table=contents.row_table,
        areas=plots.areas(contents.tested_sizes, names),
        signs=tuple((plots.WORDS[outcome], _sign(outcome, names)) for outcome in Outcome),
        stages=rows,
        curves=plots.curves(rows, names) if rows else (),
    )  # fmt: skip


def _explained(contents: ReportContents) -> Mapping[str, OraclePage]:
    """Return the pages of the oracles that failed; a report of another release may have others, without a page."""
    oracles = {bug.finding.fail.oracle for bug in contents.bugs}
    return {oracle.name: page_of(oracle.name) for oracle in registry.ALL if oracle.name in oracles}


def _hash(script: str) -> str:
    """Return the only script that the page's content security policy lets run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _choices(entries: Iterable[BugEntry]) -> Iterator[FilterChoice]:
    """Yield the traits in which the findings differ."""
    every = tuple(entries)
    for name, label in CHOICES.items():
        values = sorted({value for entry in every for value in entry.traits[name]})
        if any(set(entry.traits[name]) != set(values) for entry in every):
            yield FilterChoice(name=name, label=label, values=tuple(values))


def _change(bug: ReportedBug, latest: Stage | None) -> str:
    if latest is None:
        return ""
    signature = bug.finding.fail.signature
    return "new" if signature in latest.new else "back" if signature in latest.back else "still"


def _traits(bug: ReportedBug, change: str) -> Mapping[str, tuple[str, ...]]:
    finding = bug.finding
    states = ("known" if bug.link else "not known", str(finding.confirmation), *((change,) if change else ()))
    return {
        "severity": (str(bug.severity),),
        "oracle": (finding.fail.oracle,),
        "op": (finding.case.op_name,),
        "device": (finding.case.device.slug,),
        "state": (*states, "flaky") if finding.repeats.is_flaky else states,
    }


def _commands(bug: ReportedBug) -> Iterator[tuple[str, str]]:
    finding = bug.finding
    yield "replay", finding.replay_command
    if not bug.files:
        yield "reproducer", f"harness repro {finding.id}"
    if bug.region is None and not finding.engine_options:
        yield "region", f"harness region {finding.id}"
    yield "issue text", f"harness report {finding.id} --issue"


def _second_runs(contents: ReportContents) -> tuple[tuple[SecondRun, str], ...]:
    """Return the kinds of second runs that any op got or could have got, each with its words."""
    kinds = {kind for row in contents.together.op_checks for kind in row.second_runs}
    return tuple((kind, SECOND_RUN_WORDS[kind]) for kind in SecondRun if kind in kinds)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("harness.reports.html"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["coloured"] = coloured
    environment.filters["drawn"] = Markup
    environment.filters["coded"] = _coded
    environment.filters["breakable"] = _breakable
    environment.tests["link"] = _is_link
    return environment


def _coded(text: str) -> Markup:
    """Show as code what stands in backquotes."""
    parts = enumerate(CODE.split(text))
    return Markup("").join(Markup("<code>%s</code>") % part if index % 2 else part for index, part in parts)


def _breakable(name: str) -> Markup:
    """Let a long name break after each underscore."""
    return Markup("_<wbr>").join(name.split("_"))


def _is_link(value: str) -> bool:
    """Return True for http links only: a list of known issues may hold any text, such as `javascript:`."""
    return value.startswith(("https://", "http://"))


def _entry(bug: ReportedBug, latest: Stage | None, names: Numbers, *, in_colour: bool) -> BugEntry:
    finding, change = bug.finding, _change(bug, latest)
    signature, source = finding.fail.signature, finding.fail.source
    op = finding.case.op_name
    return BugEntry(
        bug=bug,
        anchor=f"finding-{finding.id}",
        subject=f"{signature.kernel} in {op}" if signature.kernel else op,
        change=change,
        traits=_traits(bug, change),
        repeat_rate=round(finding.repeats.shown / finding.repeats.runs, 4) if finding.repeats.runs else -1.0,
        commands=tuple(_commands(bug)),
        facts=(*facts(finding), *_origin(bug)),
        pictures=tuple(draw(picture, names) for picture in finding.fail.pictures if _is_worth_drawing(picture)),
        first_pictures=tuple(draw(picture, names) for picture in _first_pictures(finding)),
        code=lines_of(finding.excerpt, source.line, in_colour=in_colour) if finding.excerpt and source else (),
        region_sentences=sentences(bug.region) if bug.region else (),
        region_plot=region_plot.svg(bug.region) if bug.region else "",
        files=bug.files,
    )


def _is_worth_drawing(picture: Picture) -> bool:
    """Return False for a tensor of one cell: the message says as much."""
    return isinstance(picture, Span) or picture.spread.table != (1, 1)


def _first_pictures(finding: Finding) -> Iterator[Picture]:
    if finding.first_case.digest != finding.case.digest:
        yield from finding.first_pictures


def _origin(bug: ReportedBug) -> Iterator[tuple[str, str]]:
    if bug.other_folders:
        yield (
            "also kept",
            f"{counted(bug.other_folders, 'more folder')} with this signature",
        )
    for bisection in bug.bisections:
        yield "bisected", bisection.conclusion
    if bug.versions:
        yield "environment", ", ".join(f"{name} {release}" for name, release in bug.versions.items())


def _sign(outcome: Outcome, names: Numbers) -> str:
    drawing = Drawing(16, 16, title=plots.WORDS[outcome], text="as drawn in the plots", names=names)
    plots.mark(drawing, outcome, (8, 8), 5)
    return str(drawing)
