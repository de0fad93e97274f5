"""`harness replay`."""

import argparse

from rich.text import Text

from harness.cli.command import (
    CLEAN,
    FINDINGS,
    NOTHING_JUDGED,
    STORE,
    Parser,
    add_engine,
    add_fail_on,
    add_libraries,
    add_sanitizer,
    console,
)
from harness.errors import UsageError, unknown
from harness.findings import store
from harness.findings.campaign_report import counts
from harness.findings.replay import Recorded, read
from harness.findings.rerun import options_for
from harness.findings.rerun import replay as replay_recorded
from harness.model.verdict import Outcome, Severity
from harness.reports.finding_text import Sources, render
from harness.search.options import engine_of, sanitizing_for
from harness.search.session import Session


def replay(given: argparse.Namespace) -> int:
    """Run recorded cases again, each in a fresh process, and print what they show now."""
    fail_on = Severity(given.fail_on)
    failed = judged = False
    screen = console()
    for recorded in chosen(read(store.locate(given.file, STORE)), given.finding):
        options = options_for(
            recorded,
            libraries=tuple(given.libraries),
            time_limit_s=given.time_limit,
            engine=engine_of(given.engine),
            sanitizing=sanitizing_for(given.sanitizer, engine_of(given.engine), given.accepts),
        )
        with Session(options) as session:
            replayed = replay_recorded(recorded, session)
            sources = Sources(roots=session.sources)
        for finding in replayed.findings:
            screen.print(render(finding, sources), soft_wrap=True)
        screen.print(Text(str(replayed)), soft_wrap=True)
        failed |= any(counts(finding, fail_on) for finding in replayed.findings)
        judged |= replayed.outcome is not Outcome.ABSTAIN
    if failed:
        return FINDINGS
    return CLEAN if judged else NOTHING_JUDGED


def chosen(recorded: tuple[Recorded, ...], wanted: str | None) -> tuple[Recorded, ...]:
    """All cases of a file, each once, or the one that `--finding` names by its number or id."""
    if not recorded:
        raise UsageError("the file holds no findings: there is nothing to replay")
    by_id = {one.id: one for one in reversed(recorded)}
    if wanted is None:
        return tuple(reversed(by_id.values()))
    if wanted in by_id:
        return (by_id[wanted],)
    if wanted.isdecimal() and 1 <= int(wanted) <= len(recorded):
        return (recorded[int(wanted) - 1],)
    raise unknown("finding", wanted, [*by_id, *(str(number + 1) for number in range(len(recorded)))])


def add_options(parser: Parser) -> None:
    """The options of `harness replay`."""
    parser.add_argument("file", metavar="FILE|ID", help="a report, finding or case as JSON, or the id of a finding")
    parser.add_argument("--finding", metavar="N|ID", help="only this finding of a report")
    add_libraries(parser)
    add_fail_on(parser)
    add_engine(parser)
    add_sanitizer(parser)
