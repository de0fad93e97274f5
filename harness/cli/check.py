"""`harness check`."""

import argparse
from pathlib import Path

from harness.checks.check_verdict import CheckVerdict, Ruling
from harness.checks.checker import TIME_LIMIT_S, USUAL_CASES, Checker
from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import (
    add_device,
    add_no_resident,
    devices_of,
    joined_values,
    json_path,
    positive,
    seconds,
)
from harness.documents import files
from harness.errors import store_error
from harness.model.engine_traits import VIRTUAL
from harness.project_settings import JoinedByCommas
from harness.search import USUAL_DEVICE
from harness.wording import counted, visible

STATUS = {
    Ruling.RIGHT: ExitStatus.CLEAN,
    Ruling.WRONG: ExitStatus.FINDINGS,
    Ruling.UNCHECKED: ExitStatus.NOTHING_CHECKED,
}


def run(options: argparse.Namespace) -> ExitStatus:
    """Check one candidate, and print the verdict."""
    path = json_path(options.json)
    with Checker(
        device=devices_of(options) or USUAL_DEVICE,
        engine=options.engine,
        cases=options.cases,
        time_limit_s=options.time_limit,
        allows=tuple(options.allow.split(",")) if options.allow else (),
        resources=options.resources,
        other_sm_counts=True,
        stops_at_flaw=False,
        stores_findings=True,
        settings=options.settings,
    ) as checker:
        verdict = checker.check(
            options.new, options.reference, options.inputs, sizes=joined_values(options.sizes), seed=options.seed
        )
    print(visible("\n".join(lines(verdict, engine=options.engine))))
    if path is not None:
        _write(verdict, path)
    return STATUS[verdict.ruling]


def lines(verdict: CheckVerdict, engine: str = VIRTUAL.name) -> list[str]:
    """Return the verdict as lines; the last one is the conclusion.  `engine` is where the cases ran."""
    where = "" if engine == VIRTUAL.name else f" --engine {engine}"
    printed = [f"sizes: {dim}" for dim in verdict.dims]
    printed += [f"note: {note}" for note in verdict.notes]
    if verdict.torch:
        printed.append(f"torch did, of the reference's arithmetic: {', '.join(map(str, verdict.torch))}")
    for flaw in verdict.flaws:
        printed += [str(flaw), *([f"    {flaw.case}"] if flaw.case else [])]
        printed += [f"    harness replay {flaw.finding}{where}"] if flaw.finding else []
    printed.append(
        f"ran {counted(verdict.cases, 'case')} on {', '.join(verdict.devices)} in {verdict.seconds:.1f} s "
        f"(seed {verdict.seed}): {verdict.passed} passed, {verdict.failed} failed, {verdict.abstained} abstained"
    )
    match verdict.ruling:
        case Ruling.RIGHT:
            printed.append(f"right: {verdict.candidate}")
        case Ruling.WRONG:
            kinds = ", ".join(dict.fromkeys(flaw.kind for flaw in verdict.flaws))
            printed.append(f"wrong: {verdict.candidate}: {kinds}")
        case Ruling.UNCHECKED:
            printed.append(f"not checked: {verdict.candidate}: {verdict.reason}")
    return printed


def _write(verdict: CheckVerdict, path: Path) -> None:
    try:
        files.write(verdict, path)
    except OSError as error:
        raise store_error(error, path) from None


def sizes_of(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse `DIM=SIZE,…`."""
    name, equals, values = text.partition("=")
    if not equals or not name or not values:
        raise argparse.ArgumentTypeError(f"{text!r} declares no sizes: write DIM=SIZE,… as in 128=64,127")
    return name, tuple(positive(value) for value in values.split(","))


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness check mine.py:softmax mine.py:reference --inputs mine.py:sample
  harness check answer.py problem.py
  harness check answer.py problem.py --engine ptx
  harness check answer.py problem.py --sizes 16384=64,127 --device h200,b200

exit status: 0 right, 1 wrong, 2 usage or harness error, 3 could not be checked, 130 interrupted
"""
    parser.add_argument("new", metavar="NEW", help="module:function or file.py:function; or a file with ModelNew")
    parser.add_argument(
        "reference",
        nargs="?",
        metavar="REFERENCE",
        help="the same; or a file with Model, get_inputs and get_init_inputs (default: the file of ModelNew)",
    )
    parser.add_argument(
        "--inputs", metavar="PLACE", help="a function that returns the arguments of one call, or a list of several"
    )
    parser.add_argument(
        "--sizes",
        nargs="+",
        action="extend",
        type=sizes_of,
        default=[],
        metavar="DIM=SIZE,…",
        help="the only sizes of a dim, by its size in the sample: 128=64,127; repeatable "
        "(default: what the reference accepts)",
    )
    add_device(parser, USUAL_DEVICE)
    add_no_resident(parser)
    parser.add_argument(
        "--engine",
        default=VIRTUAL.name,
        metavar="NAME",
        help="virtual, ptx, or both compared: virtual,ptx (default: %(default)s)",
    )
    parser.add_argument(
        "--cases", type=positive, default=USUAL_CASES, metavar="N", help="number of cases (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, metavar="S", help="equal seeds draw equal cases (default: random)")
    parser.add_argument("--json", metavar="FILE", help="also write the verdict as JSON")
    parser.add_argument(
        "--allow",
        action=JoinedByCommas,
        default="",
        metavar="OPERATOR,…",
        help="operators of torch that may do any part of the work, as verdicts name them: convolution; repeatable",
    )
    parser.add_argument(
        "--resources", action="store_true", help="also compile each kernel for the devices: it must fit them"
    )
    parser.add_argument(
        "--time-limit",
        type=seconds,
        default=TIME_LIMIT_S,
        metavar="SECONDS",
        help="time limit of one case (default: %(default)g)",
    )
