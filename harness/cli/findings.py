"""`harness findings`."""

import argparse
import textwrap
from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_known, add_libraries
from harness.cli.finding_choice import recorded_in
from harness.cli.output import console, print_lines, show
from harness.cli.replay import replay_and_show
from harness.cli.report_contents import contents_of
from harness.errors import UsageError
from harness.findings import store
from harness.findings.recorded_cases import Recorded
from harness.findings.replays import FindingState, summary_of
from harness.findings.rerun import options_for
from harness.findings.store import FOLDER as STORE
from harness.findings.trust import refuse_foreign_code
from harness.model.engine_traits import VIRTUAL
from harness.model.finding import Confirmation
from harness.model.verdict import Severity
from harness.reports.contents import ReportContents, ReportedBug
from harness.reports.finding_text import COLOURS, WIDTH, symptom_count
from harness.reports.oracle_pages import page_of
from harness.reports.summary import count_text
from harness.search.options import Options
from harness.workers.fork_servers.residents import Residents


def run(options: argparse.Namespace) -> ExitStatus:
    """List the stored findings, one line for each bug; or explain an oracle; or remove findings that are gone."""
    if options.explain:
        print_lines(explained(options.explain))
        return ExitStatus.CLEAN
    if options.prune:
        return _prune(options)
    contents = contents_of(options.paths, options.known)
    screen = console()
    show(screen, Text("\n").join(listed(contents)))
    return ExitStatus.ERROR if contents.damaged else ExitStatus.CLEAN


def listed(contents: ReportContents) -> Iterator[Text]:
    """Return a line for each bug, one for each unreadable file, and the number of bugs."""
    for bug in contents.bugs:
        finding = bug.finding
        text = Text()
        text.append(f"{bug.severity:<8}", style=COLOURS[bug.severity])
        text.append(f"{finding.id}  {finding.fail.signature}  {_sightings(bug)}")
        yield text
    yield from (Text(f"not readable: {complaint}") for complaint in contents.damaged)
    yield Text(count_text(contents.count(Severity.ERROR), contents.count(Severity.WARNING)))


def explained(oracle: str) -> Iterator[str]:
    """Yield the lines about an oracle: its promise, what a failure of it is, and an example."""
    page = page_of(oracle)
    for number, paragraph in enumerate((f"{page.oracle}: {page.promise}", *page.paragraphs)):
        if number:
            yield ""
        yield from textwrap.wrap(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False)
    if page.example:
        yield ""
        yield from page.example.rstrip().splitlines()


def _sightings(bug: ReportedBug) -> str:
    finding = bug.finding
    count = finding.sightings
    notes = [f"seen {'once' if count == 1 else f'{count:,} times'}"]
    if finding.symptoms:
        notes.append(symptom_count(finding))
    if finding.repeats.is_flaky:
        notes.append(f"flaky: {finding.repeats.shown} of {finding.repeats.runs} times alone")
    elif finding.confirmation is not Confirmation.CONFIRMED:
        notes.append(finding.confirmation)
    if bug.link:
        notes.append(f"known: {bug.link}")
    return f"({', '.join(notes)})"


def _prune(options: argparse.Namespace) -> ExitStatus:
    """Replay the stored findings and remove those that are gone.  What could not be tried stays."""
    if len(options.paths) > 1:
        raise UsageError("--prune takes one folder of findings")
    folder = Path(options.paths[0]) if options.paths else store.nearest()
    if not folder.is_dir() or (folder / store.FINDING).is_file():
        raise UsageError(f"--prune removes findings of a folder, and {folder} is none")
    attempts = replay_and_show(
        recorded_in(str(folder)),
        lambda recorded: _options_for(recorded, options),
        Residents.allowed_by(options.settings),
    )
    gone = {attempt.recorded.id for attempt in attempts if attempt.state is FindingState.GONE}
    store.remove(gone, folder)
    show(console(), Text(f"{summary_of(attempts)}; {len(gone)} removed"))
    return ExitStatus.CLEAN


def _options_for(recorded: Recorded, options: argparse.Namespace) -> Options:
    refuse_foreign_code(recorded, options.libraries, trusted=False)
    return options_for(recorded, libraries=tuple(options.libraries), engine=VIRTUAL)


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness findings               those of .harness/findings, here or above
  harness findings report.json   those of a report
  harness findings --explain write-overlap   what this oracle checks
  harness findings --prune       replay them, and remove those that are gone

exit status: 0 they are listed; 2 usage error, or a file is not readable
"""
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="FOLDER|FILE|ID",
        help=f"folders of findings, single findings, or reports of harness fuzz --json (default: {STORE})",
    )
    parser.add_argument("--explain", metavar="ORACLE", help="say what an oracle checks, with an example of a finding")
    parser.add_argument(
        "--prune", action="store_true", help="replay each stored finding, and remove those that are gone"
    )
    add_libraries(parser)
    add_known(parser)
