"""The whole page: what has been gathered, in the words and pictures that the templates lay out."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from harness.findings.campaign_report import replay_command
from harness.model.finding import Finding
from harness.model.picture import Picture, Span
from harness.model.verdict import Outcome, Severity
from harness.region.record import sentences
from harness.reports import region_plot
from harness.reports.contents import Attached, Gathered, ReportedBug
from harness.reports.finding_text import describe, facts
from harness.reports.html import plots
from harness.reports.html.code import Line, coloured, lines_of
from harness.reports.html.oracle_grid import grid_of
from harness.reports.html.pictures import Drawn, draw
from harness.reports.html.svg import Drawing, Numbers
from harness.reports.report_history import stages
from harness.reports.summary import told

STYLE, PAGE = "style.css", "page.html.j2"


@dataclass(frozen=True, slots=True, kw_only=True)
class BugEntry:
    """One bug as the template shows it."""

    bug: ReportedBug
    anchor: str
    where: str
    """Kernel and op."""
    smallest: str
    replay: str
    facts: tuple[tuple[str, str], ...]
    pictures: tuple[Drawn, ...]
    """In the smallest case."""
    first_pictures: tuple[Drawn, ...]
    """In the first case, where that is another."""
    code: tuple[Line, ...]
    region_says: tuple[str, ...]
    region_plot: str
    files: tuple[Attached, ...]

    @property
    def finding(self) -> Finding:
        """The bug's finding."""
        return self.bug.finding


def page(gathered: Gathered, made: datetime) -> str:
    """The page, which works from disk; `made` is when."""
    names = Numbers()
    rows = stages(gathered)
    return _environment().get_template(PAGE).render(
        gathered=gathered,
        made=made.strftime("%Y-%m-%d %H:%M %Z").strip(),
        errors=gathered.count(Severity.ERROR),
        warnings=gathered.count(Severity.WARNING),
        told=told(gathered.count(Severity.ERROR), gathered.count(Severity.WARNING)),
        entries=tuple(_entry(bug, names) for bug in gathered.bugs),
        grid=grid_of(gathered.verdicts),
        areas=plots.areas(gathered.area, names),
        signs=tuple((plots.WORDS[outcome], _sign(outcome, names)) for outcome in Outcome),
        stages=rows,
        curves=plots.curves(rows, names) if rows else (),
    )  # fmt: skip


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("harness.reports.html"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["coloured"] = coloured
    environment.filters["drawn"] = Markup
    environment.filters["breakable"] = _breakable
    environment.tests["link"] = _is_link
    return environment


def _breakable(name: str) -> Markup:
    """A long name that may go on in the next line after each underscore."""
    return Markup("_<wbr>").join(name.split("_"))


def _is_link(value: str) -> bool:
    """Whether a browser may follow it: a list of known issues may hold any text."""
    return value.startswith(("https://", "http://"))


def _entry(bug: ReportedBug, names: Numbers) -> BugEntry:
    finding = bug.finding
    signature, source = finding.fail.signature, finding.fail.source
    op = finding.case.op_name
    return BugEntry(
        bug=bug,
        anchor=f"finding-{finding.id}",
        where=f"{signature.kernel} in {op}" if signature.kernel else op,
        smallest=describe(finding.case),
        replay=replay_command(finding),
        facts=(*facts(finding), *_surroundings(bug)),
        pictures=tuple(draw(picture, names) for picture in finding.fail.pictures if _says_more(picture)),
        first_pictures=tuple(draw(picture, names) for picture in _first_pictures(finding)),
        code=lines_of(finding.excerpt, source.line) if finding.excerpt and source else (),
        region_says=sentences(bug.region) if bug.region else (),
        region_plot=region_plot.svg(bug.region) if bug.region else "",
        files=bug.files,
    )


def _says_more(picture: Picture) -> bool:
    """Whether a picture shows more than a message: the smallest case often has tensors of one cell."""
    return isinstance(picture, Span) or picture.spread.table != (1, 1)


def _first_pictures(finding: Finding) -> Iterator[Picture]:
    if finding.first_case.digest != finding.case.digest:
        yield from finding.first_pictures


def _surroundings(bug: ReportedBug) -> Iterator[tuple[str, str]]:
    if bug.others:
        yield "also kept", f"{bug.others} more {'folder' if bug.others == 1 else 'folders'} with this signature"
    if bug.versions:
        yield "environment", ", ".join(f"{name} {release}" for name, release in bug.versions.items())


def _sign(outcome: Outcome, names: Numbers) -> str:
    drawing = Drawing(16, 16, title=plots.WORDS[outcome], text="as drawn in the plots", names=names)
    plots.mark(drawing, outcome, (8, 8), 5)
    return str(drawing)
