"""`python -m studies.corpus`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.cli import run_module
from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_engine, json_path, minutes, positive
from harness.cli.hypothesis_folder import use_hypothesis_folder
from harness.cli.output import ProgressLine, print_lines, print_progress
from harness.documents import files
from harness.findings import store
from harness.findings.versions import versions
from harness.model.case import HARNESS_FOLDER
from harness.model.finding import Finding
from harness.reports.finding_text import Sources, render
from harness.reports.interrupts import Interrupts
from harness.search.engine_choice import parse_engine
from harness.wording import counted
from studies.corpus import results
from studies.corpus.bugs import choose, read
from studies.corpus.verify import BugRecord, SearchBudget, search_for_bug

BUGS = Path(__file__).with_name("corpus.toml")
CASES = 2000
MINUTES = 10.0
PROGRESS_EVERY_S = 10.0
STORE = HARNESS_FOLDER / "corpus" / "findings"
"""Apart from the findings of `harness fuzz`, which may have the same ids and more cases."""


def run(arguments: argparse.Namespace) -> ExitStatus:
    """Look for each bug in its last bad release, then in the first fixed one, and print the results."""
    bugs = choose(read(arguments.bugs), tuple(arguments.ids))
    path = json_path(arguments.json)
    kept = results.load(path) if path else results.CorpusResults()
    budget = SearchBudget(
        cases=arguments.cases,
        seconds=60 * arguments.minutes,
        processes=arguments.processes or len(os.sched_getaffinity(0)),
        seed=arguments.seed,
        time_limit_s=arguments.time_limit,
        engine=parse_engine(arguments.engine).factory,
    )
    use_hypothesis_folder()
    records: list[BugRecord] = []
    with Interrupts() as interrupts:
        progress = ProgressLine(PROGRESS_EVERY_S, interrupts)
        for bug in bugs:
            record = None if arguments.ids else kept.of(bug, budget)
            if record is None:
                record = search_for_bug(bug, budget, arguments.settings, progress, _store)
                kept = kept.plus(record)
                if path:
                    files.write(kept, path)
            records.append(record)
    conditions = ", ".join(f"{name} {version}" for name, version in versions().items())
    limits = (
        f"seed {arguments.seed}, up to {counted(arguments.cases, 'case')} or {arguments.minutes:g} minutes a release"
    )
    print_lines([f"{conditions}; {limits}\n", *results.lines(records)])
    return _status(records)


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  python -m studies.corpus fla_layernorm_overlap   one bug
  python -m studies.corpus --json corpus.json      all; a second run goes on

exit status: 0 every bug was found, and its first fixed release, if any, is clean; 1 a bug was not found,
or shows in the fixed release; 2 usage or harness error; 3 nothing could be checked
"""
    parser.add_argument("ids", nargs="*", metavar="ID", help="only these bugs, even if the file of --json has them")
    parser.add_rare(
        "--bugs", type=Path, default=BUGS, metavar="FILE", help="the list of bugs (default: corpus.toml of the study)"
    )
    parser.add_argument(
        "--cases", type=positive, default=CASES, metavar="N", help="most cases for a release (default: %(default)s)"
    )
    parser.add_argument(
        "--minutes",
        type=minutes,
        default=MINUTES,
        metavar="M",
        help="most minutes for a release (default: %(default)g)",
    )
    parser.add_rare("--processes", type=positive, metavar="N", help="cases at once (default: one per core)")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="S", help="another seed draws other cases (default: %(default)s)"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="store the result of each bug in FILE; skip the bugs whose results it has"
    )
    add_engine(parser)


def _status(records: list[BugRecord]) -> ExitStatus:
    searched = [record for record in records if record.bad is not None]
    if not any(record.was_checked for record in searched):
        return ExitStatus.NOTHING_CHECKED
    all_found = all(record.is_confirmed or record.is_open for record in searched)
    return ExitStatus.CLEAN if all_found else ExitStatus.FINDINGS


def _store(finding: Finding) -> None:
    (place,) = store.save((finding,), STORE, lambda finding: render(finding, Sources()).plain, versions())
    print_progress(f"kept in {place}")


def main(arguments: Sequence[str]) -> int:
    return run_module(
        sys.modules[__name__],  # pyright: ignore[reportArgumentType] - a module as a protocol
        "python -m studies.corpus",
        "Find historical bugs again, and none in fixed releases.",
        arguments,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
