"""`python -m studies.sightings`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness import libraries
from harness.cli import run_module
from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import existing, positive, seconds
from harness.cli.output import print_lines, print_progress
from harness.errors import UsageError
from harness.findings.versions import versions
from studies.corpus.__main__ import BUGS
from studies.corpus.bugs import choose, read
from studies.sightings import results
from studies.sightings.search import SightingLimits, attempt

CASES = 2000
SECONDS = 120.0
PROCESSES = 2


def run(arguments: argparse.Namespace) -> ExitStatus:
    """Search for each bug under each seed, and print how soon it was sighted; or compare two files."""
    if arguments.compare:
        before, after = map(results.load, arguments.compare)
        print_lines(results.comparison(before, after))
        return ExitStatus.CLEAN
    bugs = [bug for bug in choose(read(arguments.bugs), tuple(arguments.ids)) if not bug.not_searched]
    if not bugs:
        raise UsageError("none of these bugs is searched for: corpus.toml says why")
    limits = SightingLimits(cases=arguments.cases, seconds=arguments.seconds, processes=arguments.processes)
    known = {(one.bug, one.seed, one.limits): one for one in (results.load(arguments.jsonl) if arguments.jsonl else ())}
    attempts: list[results.Attempt] = []
    for bug in bugs:
        for seed in arguments.seed or [0]:
            done = known.get((bug.id, seed, limits))
            if done is None:
                libraries.resolve(bug.release(bug.last_bad), cache=arguments.settings.cache)  # installs it beforehand
                done = attempt(bug, seed, limits)
                if arguments.jsonl:
                    results.append(done, arguments.jsonl)
                print_progress(f"{bug.id}, seed {seed}: {done.ended or f'{done.seconds} s, case {done.case_number}'}")
            attempts.append(done)
    conditions = ", ".join(f"{name} {version}" for name, version in versions().items())
    print_lines([f"{conditions}; {limits.cases} cases or {limits.seconds:g} s at most, {limits.processes} processes\n"])
    print_lines(results.lines(attempts))
    return ExitStatus.CLEAN if all(one.seconds is not None for one in attempts) else ExitStatus.FINDINGS


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  python -m studies.sightings fla_layernorm_overlap --seed 101 --seed 102
  python -m studies.sightings --jsonl sightings.jsonl           all bugs; a second run goes on
  python -m studies.sightings --compare before.jsonl after.jsonl

exit status: 0 every search sighted its bug; 1 one did not; 2 usage or harness error
"""
    parser.add_argument("ids", nargs="*", metavar="ID", help="only these bugs (default: all that are searched for)")
    parser.add_rare(
        "--bugs", type=Path, default=BUGS, metavar="FILE", help="the list of bugs (default: corpus.toml of the corpus)"
    )
    parser.add_argument("--seed", type=int, action="append", metavar="S", help="a seed; repeatable (default: 0)")
    parser.add_argument(
        "--seconds", type=seconds, default=SECONDS, metavar="S", help="most seconds of a search (default: %(default)g)"
    )
    parser.add_argument(
        "--cases", type=positive, default=CASES, metavar="N", help="most cases of a search (default: %(default)s)"
    )
    parser.add_argument(
        "--processes", type=positive, default=PROCESSES, metavar="N", help="cases at once (default: %(default)s)"
    )
    parser.add_argument(
        "--jsonl", type=Path, metavar="FILE", help="add each result to FILE; skip the searches whose results it has"
    )
    parser.add_argument(
        "--compare", type=existing, nargs=2, metavar=("BEFORE", "AFTER"), help="search nothing: compare two such files"
    )


def main(arguments: Sequence[str]) -> int:
    return run_module(
        sys.modules[__name__],  # pyright: ignore[reportArgumentType] - a module as a protocol
        "python -m studies.sightings",
        "Measure how soon searches first see known bugs.",
        arguments,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
