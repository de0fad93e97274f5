"""`harness replay`."""

import argparse

from rich.text import Text

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_engine, add_fail_on, add_libraries, add_sanitizer, add_show_output
from harness.cli.finding_choice import add_finding, add_trust, locate, read_findings
from harness.cli.output import console, show
from harness.findings.rerun import ReplayStatus, options_for, replay
from harness.findings.trust import refuse_foreign_code
from harness.model.verdict import Severity
from harness.reports.finding_text import Sources, render
from harness.search.engine_choice import parse_engine
from harness.search.options import sanitizer_for
from harness.search.session import Session


def run(arguments: argparse.Namespace) -> ExitStatus:
    """Run recorded cases again, each in a fresh process, and print what they show now."""
    fail_on, engine = Severity(arguments.fail_on), parse_engine(arguments.engine)
    is_failed = is_unchecked = False
    screen = console()
    for recorded in read_findings(locate(arguments.file), arguments.finding):
        refuse_foreign_code(recorded, arguments.libraries, trusted=arguments.trust)
        options = options_for(
            recorded,
            libraries=tuple(arguments.libraries),
            time_limit_s=arguments.time_limit,
            engine=engine,
            sanitizer=sanitizer_for(arguments.sanitizer, engine, arguments.accepts, arguments.settings),
            settings=arguments.settings,
            shows_output=arguments.show_output,
        )
        with Session(options) as session:
            replayed = replay(recorded, session)
            sources = Sources(roots=session.sources)
        for finding in replayed.same:
            show(screen, render(finding, sources))
        if replayed.other_findings:
            screen.print(Text("other findings of this case:"))
        for finding in replayed.other_findings:
            show(screen, render(finding, sources))
        show(screen, Text(str(replayed)))
        is_failed |= bool(replayed.failures(fail_on))
        is_unchecked |= replayed.status is ReplayStatus.NOT_CHECKED
    if is_failed:
        return ExitStatus.FINDINGS
    return ExitStatus.NOTHING_CHECKED if is_unchecked else ExitStatus.CLEAN


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness replay cf4e6df9                          one of .harness/findings
  harness replay report.json --finding 2           one of a report
  harness replay cf4e6df9 --with fla-core==0.6.0   with another release

exit status: 0 every recorded failure is gone; 1 one shows again, or its case has another error;
2 usage or harness error; 3 a recorded failure could not be checked.
Other warnings of a case are listed, and do not count.
"""
    add_finding(parser)
    add_trust(parser)
    add_libraries(parser)
    add_fail_on(parser)
    add_engine(parser)
    add_sanitizer(parser)
    add_show_output(parser)
