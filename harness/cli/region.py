"""`harness region`."""

import argparse

from rich.text import Text

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_engine, add_libraries, add_no_resident, positive, seconds
from harness.cli.finding_choice import add_finding, add_trust, locate, read_one_finding
from harness.cli.output import ProgressLine, console, show
from harness.errors import HarnessError, UsageError, unknown
from harness.findings.region.mapping import MappedFailure, Mapper, MappingLimits
from harness.findings.region.points import PointChecker
from harness.findings.region.record import save
from harness.findings.rerun import op_of, options_for
from harness.findings.store import nearest
from harness.findings.trust import refuse_foreign_code
from harness.findings.versions import versions
from harness.model.case import Case
from harness.model.op import Op
from harness.model.paired_run import RunRequest
from harness.model.region import SMS, Ended, Region
from harness.model.run import Run
from harness.model.verdict import Outcome
from harness.reports.interrupts import Interrupts
from harness.reports.region_text import render
from harness.search.engine_choice import parse_engine
from harness.search.options import Options
from harness.search.session import Session

PROGRESS_EVERY_S = 5.0
USUAL = MappingLimits()
SM_NAMES = frozenset({"sm", "sms"})


def run(arguments: argparse.Namespace) -> ExitStatus:
    """Map where around its smallest case a finding shows, print the map and store it with the finding."""
    path = locate(arguments.file)
    recorded = read_one_finding(path, arguments.finding)
    if recorded.signature is None:
        raise UsageError("the file holds a bare case: a region is that of a failure, so name a finding")
    if recorded.watched is not None:
        raise UsageError(
            f"{recorded.id} is a finding of harness run, whose launch has no sizes to vary: "
            f"draft a suite by harness init --from {recorded.id}, and map what harness fuzz finds with it"
        )
    refuse_foreign_code(recorded, arguments.libraries, trusted=arguments.trust)
    op = op_of(recorded)
    options = options_for(
        recorded,
        libraries=tuple(arguments.libraries),
        time_limit_s=arguments.time_limit,
        engine=parse_engine(arguments.engine),
        settings=arguments.settings,
    )
    subject = MappedFailure(
        finding=recorded.id,
        op=op,
        case=recorded.case,
        signature=recorded.signature,
        axes=_axes(arguments.axes, op) if arguments.axes else None,
        libraries=options.libraries,
        versions=versions(),
    )
    before = (recorded.preceding_case,) if recorded.preceding_case else ()
    mapped, error = _map(subject, before, options, MappingLimits(points=arguments.points, seconds=arguments.seconds))
    screen = console()
    if mapped.points:
        show(screen, render(mapped))
        show(screen, Text(f"kept in {save(mapped, path, nearest())}"))
    if error:
        raise error
    return _status(mapped)


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness region 88892a72             a plot of two axes that matter, and a rule
  harness region 88892a72 --axes T,SM   a plot of dim T and the SM count
  harness region report.json --finding 2 --points 2000 --seconds 600

exit status: 0 the map was made; 1 the smallest case no longer shows the failure; 2 usage or harness error;
3 the smallest case could not be checked; 130 interrupted before it was checked
"""
    add_finding(parser)
    add_trust(parser)
    parser.add_argument(
        "--axes",
        metavar="A,B",
        help="the axes of the plot: two of the op's dims and SM (default: T,SM, or the two that matter)",
    )
    parser.add_argument(
        "--points", type=positive, default=USUAL.points, metavar="N", help="most cases to run (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=seconds, default=USUAL.seconds, metavar="S", help="most seconds (default: %(default)g)"
    )
    add_libraries(parser)
    add_engine(parser)
    add_no_resident(parser)


def _axes(text: str, op: Op) -> tuple[str, str]:
    """Parse the value of `--axes`: two different axes of the op."""
    names = tuple(SMS if name.strip().lower() in SM_NAMES else name.strip() for name in text.split(","))
    for name in names:
        if name != SMS and name not in op.dims:
            raise unknown("axis", name, (*op.dims, "SM"))
    match names:
        case (vertical, horizontal) if vertical != horizontal:
            return vertical, horizontal
        case _:
            raise UsageError(f"--axes {text}: it takes two different axes, such as T,SM")


def _map(
    subject: MappedFailure, before: tuple[Case, ...], options: Options, limits: MappingLimits
) -> tuple[Region, HarnessError | None]:
    """Map the failure.  An interrupt or an error of the harness ends the map early."""
    broken: HarnessError | None = None
    with Session(options) as session, Interrupts() as interrupts:

        def execute(request: RunRequest) -> Run:
            return session.pool.run_alone(request, before) if before else session.pool.run(request)

        checker = PointChecker(subject.op, subject.signature, session.judge, execute)
        mapper = Mapper(subject, checker, limits, ProgressLine(PROGRESS_EVERY_S, interrupts))
        try:
            mapper.run()
        except HarnessError as error:
            broken = error
        except KeyboardInterrupt:
            pass  # the region itself says that it was interrupted
        return mapper.region(), broken


def _status(mapped: Region) -> ExitStatus:
    if not mapped.points:
        return ExitStatus.INTERRUPTED
    if mapped.stop_reason is not Ended.NOT_SHOWN:
        return ExitStatus.CLEAN
    return ExitStatus.NOTHING_CHECKED if mapped.count(Outcome.ABSTAIN) else ExitStatus.FINDINGS
