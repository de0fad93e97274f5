"""`harness corpus`."""

import argparse
import os
from pathlib import Path

from hypothesis.configuration import set_hypothesis_home_dir
from rich.text import Text

from harness.cli.command import (
    CLEAN,
    FINDINGS,
    NOTHING_JUDGED,
    STORE,
    Parser,
    add_engine,
    console,
    duration,
    positive,
)
from harness.cli.progress_line import Telling
from harness.corpus import results
from harness.corpus.bugs import choose, read
from harness.corpus.verify import Budget, BugRecord, hunt
from harness.errors import UsageError
from harness.findings import store
from harness.findings.versions import versions
from harness.model.finding import Finding
from harness.reports.finding_text import Sources, render
from harness.reports.interrupts import Interrupts
from harness.search.options import engine_of
from harness.search.session import FOLDER, prepared

BUGS = Path("suites", "corpus.toml")
CASES = 2000
MINUTES = 10.0
TELL_EVERY_S = 10.0


def corpus(given: argparse.Namespace) -> int:
    """Look for each bug in its last bad release, then in the first fixed one, and print what came of it."""
    bugs = choose(read(Path(given.bugs)), tuple(given.ids))
    path = Path(given.json) if given.json else None
    if path and not path.absolute().parent.is_dir():
        raise UsageError(f"--json {path}: there is no folder {path.parent}")
    ledger = results.load(path) if path else results.CorpusResults()
    budget = Budget(
        cases=given.cases,
        seconds=60 * given.minutes,
        processes=given.processes or len(os.sched_getaffinity(0)),
        seed=given.seed,
        time_limit_s=given.time_limit,
        engine=engine_of(given.engine),
    )
    set_hypothesis_home_dir(prepared(FOLDER) / "hypothesis")
    records: list[BugRecord] = []
    with Interrupts() as interrupts:
        for bug in bugs:
            record = None if given.ids else ledger.of(bug, budget)
            if record is None:
                record = hunt(bug, budget, Telling(TELL_EVERY_S, interrupts), _keep)
                ledger = ledger.plus(record)
                if path:
                    results.save(ledger, path)
            records.append(record)
    screen = console()
    known = ", ".join(f"{name} {version}" for name, version in versions().items())
    screen.print(
        Text(f"{known}; seed {given.seed}, up to {given.cases} cases or {given.minutes:g} minutes a release\n")
    )
    for line in results.lines(records):
        screen.print(Text(line), soft_wrap=True)
    return _status(records)


def add_options(parser: Parser) -> None:
    """The options of `harness corpus`."""
    parser.epilog = (
        "Exit status: 0 every bug was found and its first fixed release is silent, 1 one was not, or was seen there "
        "too, 2 usage or harness error, 3 nothing could be judged."
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="only these bugs, even if the file of --json has them")
    parser.add_argument("--bugs", default=str(BUGS), metavar="FILE", help="the list of bugs (usually %(default)s)")
    parser.add_argument(
        "--cases", type=positive, default=CASES, metavar="N", help="at most so many a release (usually %(default)s)"
    )
    parser.add_argument(
        "--minutes", type=duration, default=MINUTES, metavar="M", help="at most so long a release (usually %(default)g)"
    )
    parser.add_argument("--processes", type=positive, metavar="N", help="cases at once (usually one a core)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="for other cases (usually %(default)s)")
    parser.add_argument(
        "--json", metavar="FILE", help="keep what came of each bug there, and go on from what is there already"
    )
    add_engine(parser)


def _status(records: list[BugRecord]) -> int:
    searched = [record for record in records if record.bad is not None]
    if not any(record.was_searched for record in searched):
        return NOTHING_JUDGED
    return CLEAN if all(record.is_kept for record in searched) else FINDINGS


def _keep(finding: Finding) -> None:
    store.save((finding,), STORE, lambda one: render(one, Sources()).plain, versions())
