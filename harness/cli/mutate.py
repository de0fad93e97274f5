"""`harness mutate`, as far as the command line sees it; what it does is in `harness.cli.mutate_run`."""

import argparse

from harness.cli.command import Parser, add_engine, add_libraries, duration, existing, positive

DEVICE = "rtx-pro-6000"
CASES = 300
SECONDS = 300.0


def mutate(given: argparse.Namespace) -> int:
    """Try mutants of what the ops execute, and print what became of them."""
    from harness.cli import mutate_run  # noqa: PLC0415 -- LibCST takes a quarter of a command's start, for this one alone

    return mutate_run.run(given)


def add_options(parser: Parser) -> None:
    """The options of `harness mutate`."""
    parser.epilog = (
        "Exit status: 0 the score is at least --at-least, 1 it is not, 2 usage or harness error, 3 no mutant counts."
    )
    parser.add_argument("suites", nargs="+", metavar="SUITE", help="a suite file, or a folder of them")
    parser.add_argument("--op", action="append", default=[], metavar="NAME", help="only this op; repeatable")
    parser.add_argument("--device", default=DEVICE, metavar="NAME,…", help="as for fuzz (usually %(default)s)")
    parser.add_argument(
        "--cases", type=positive, default=CASES, metavar="N", help="for one mutant, at most (usually %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=duration, default=SECONDS, metavar="S", help="for one mutant, at most (usually %(default)g)"
    )
    parser.add_argument("--limit", type=positive, metavar="M", help="try so many mutants, drawn by the seed, not all")
    parser.add_argument("--mutant", action="append", default=[], metavar="ID", help="only this mutant; repeatable")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="for other cases and another sample")
    parser.add_argument("--processes", type=positive, metavar="N", help="mutants at once (usually one a core)")
    parser.add_argument(
        "--json", metavar="FILE", help="keep what became of each mutant there, and go on from what is there already"
    )
    parser.add_argument(
        "--known",
        type=existing,
        metavar="FILE",
        help="survivors that were looked at (usually each mutants.toml beside the suites and one folder above)",
    )
    parser.add_argument(
        "--at-least", type=float, default=95.0, metavar="PERCENT", help="the score asked for (usually %(default)g)"
    )
    add_libraries(parser)
    add_engine(parser)
