"""`harness report` and `harness findings`."""

import argparse
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

from rich.text import Text

from harness.cli.command import CLEAN, STORE, Parser, add_known, console
from harness.errors import UsageError
from harness.findings.known_issues import KnownIssues, read_known_issues
from harness.model.verdict import Severity
from harness.reports import markdown
from harness.reports.contents import Gathered, ReportedBug, gather
from harness.reports.finding_text import COLOURS
from harness.reports.html.page import page
from harness.reports.junit import junit
from harness.reports.summary import told

PAGE = "report.html"
STDOUT = "-"


def report(given: argparse.Namespace) -> int:
    """Write what was found as a page, and as a CI system wants it."""
    gathered = _gathered(given, _paths(given.paths), tuple(Path(older) for older in given.history))
    if not gathered.bugs and not gathered.campaigns and gathered.damaged:
        raise UsageError(f"nothing of it can be read: {gathered.damaged[0]}")
    others = tuple(name for name in (given.markdown, given.junit) if name)
    if given.output or not others:
        _write(given.output or PAGE, page(gathered, datetime.now(UTC)))
    if given.markdown:
        _write(given.markdown, markdown.summary(gathered))
    if given.junit:
        _write(given.junit, junit(gathered))
    for complaint in gathered.damaged:
        print(f"not readable: {complaint}", file=sys.stderr)
    return CLEAN


def findings(given: argparse.Namespace) -> int:
    """List the bugs that are kept."""
    gathered = _gathered(given, _paths([given.folder] if given.folder else []))
    screen = console()
    for line in listed(gathered):
        screen.print(line, soft_wrap=True)
    return CLEAN


def listed(gathered: Gathered) -> Iterator[Text]:
    """A line for each bug, what could not be read, and how many there are."""
    for bug in gathered.bugs:
        finding = bug.finding
        text = Text()
        text.append(f"{bug.severity:<8}", style=COLOURS[bug.severity])
        text.append(f"{finding.id}  {finding.fail.signature}  {_sightings(bug)}")
        yield text
    yield from (Text(f"not readable: {complaint}") for complaint in gathered.damaged)
    yield Text(told(gathered.count(Severity.ERROR), gathered.count(Severity.WARNING)))


def _sightings(bug: ReportedBug) -> str:
    finding = bug.finding
    count = finding.sightings
    notes = [f"seen {'once' if count == 1 else f'{count:,} times'}"]
    if finding.repeats.is_flaky:
        notes.append(f"flaky: {finding.repeats.shown} of {finding.repeats.runs} times alone")
    elif not finding.confirmed:
        notes.append("unconfirmed")
    if bug.link:
        notes.append(f"known: {bug.link}")
    return f"({', '.join(notes)})"


def _gathered(given: argparse.Namespace, paths: tuple[Path, ...], earlier: tuple[Path, ...] = ()) -> Gathered:
    today = date.today()  # noqa: DTZ011 - a date that people write has no zone
    issues: KnownIssues = read_known_issues(given.known, today)
    return gather(paths, earlier=earlier, issues=issues, folder=STORE)


def _paths(names: list[str]) -> tuple[Path, ...]:
    """What was named, or else the usual folder.

    Raises:
        UsageError: something named does not exist, or there is no usual folder.
    """
    for name in names:
        if not Path(name).exists():
            raise UsageError(f"there is no {name}: name a folder of findings, or a report of harness fuzz --json")
    if not names and not STORE.is_dir():
        raise UsageError(f"there is no {STORE} here: run harness fuzz first, or name a folder or a report")
    return tuple(map(Path, names)) or (STORE,)


def _write(name: str, text: str) -> None:
    if name == STDOUT:
        sys.stdout.write(text)
        return
    path = Path(name)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    print(path, file=sys.stderr)


def add_report_options(parser: Parser) -> None:
    """The options of `harness report`."""
    parser.epilog = (
        "Exit status: 0 the report was written, whatever it says; 2 usage error. A page is written unless only "
        "--markdown or --junit is asked for."
    )
    parser.add_argument(
        "paths", nargs="*", metavar="FOLDER|REPORT", help=f"findings, or reports as JSON (usually {STORE})"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help=f"the page (usually {PAGE}; - for standard output)")
    parser.add_argument("--markdown", metavar="FILE", help="a summary for a CI system; - for standard output")
    parser.add_argument("--junit", metavar="FILE", help="the findings as failed tests; - for standard output")
    parser.add_argument(
        "--history",
        nargs="+",
        action="extend",
        default=[],
        metavar="OLDER",
        help="earlier reports as JSON, the oldest first: what is new, and what is gone",
    )
    add_known(parser)


def add_findings_options(parser: Parser) -> None:
    """The options of `harness findings`."""
    parser.add_argument("folder", nargs="?", metavar="FOLDER|REPORT", help=f"usually {STORE}")
    add_known(parser)
