"""A finding as the templates show it: what is drawn, coloured and copied of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.findings.region.record import sentences
from harness.model.finding import Finding
from harness.model.picture import Picture, Span
from harness.reports import region_plot
from harness.reports.contents import Attached, ReportedBug
from harness.reports.finding_text import facts
from harness.reports.html.code import Line, lines_of
from harness.reports.html.pictures import Drawn, draw
from harness.reports.html.svg import Numbers
from harness.wording import counted


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


def entry_of(bug: ReportedBug, change: str, names: Numbers, *, in_colour: bool = True, name: str = "") -> BugEntry:
    """Return a bug as the templates need it.

    Args:
        bug: what it shows.
        change: `BugEntry.change`.
        names: of the page.
        in_colour: False to leave code plain, which is faster.
        name: how commands name the finding; its id if empty.
    """
    finding = bug.finding
    signature, source = finding.fail.signature, finding.fail.source
    op = finding.case.op_name
    return BugEntry(
        bug=bug,
        anchor=f"finding-{finding.id}",
        subject=f"{signature.kernel} in {op}" if signature.kernel else op,
        change=change,
        traits=_traits(bug, change),
        repeat_rate=round(finding.repeats.shown / finding.repeats.runs, 4) if finding.repeats.runs else -1.0,
        commands=tuple(_commands(bug, name or finding.id)),
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


def _commands(bug: ReportedBug, name: str) -> Iterator[tuple[str, str]]:
    finding = bug.finding
    yield "replay", finding.replay_command.replace(finding.id, name, 1)
    if not bug.files:
        yield "reproducer", f"harness repro {name}"
    if bug.region is None and not finding.engine_options:
        yield "region", f"harness region {name}"
    yield "issue text", f"harness report {name} --issue"
