"""`harness region`."""

import argparse

from rich.text import Text

from harness.cli.command import (
    CLEAN,
    FINDINGS,
    INTERRUPTED,
    NOTHING_JUDGED,
    STORE,
    Parser,
    add_engine,
    add_libraries,
    console,
    duration,
    positive,
)
from harness.cli.progress_line import Telling
from harness.cli.replay import chosen
from harness.errors import HarnessError, UsageError, unknown
from harness.findings import store
from harness.findings.replay import Recorded, read
from harness.findings.rerun import op_of, options_for
from harness.findings.versions import versions
from harness.model.case import Case
from harness.model.op import Op
from harness.model.paired_run import RunRequest
from harness.model.region import SMS, Ended, Region
from harness.model.run import Run
from harness.model.verdict import Outcome, Signature
from harness.region.mapping import MappedFailure, Mapper, MappingLimits
from harness.region.points import Looker
from harness.region.record import save
from harness.reports.interrupts import Interrupts
from harness.reports.region_text import render
from harness.search.options import Options, engine_of
from harness.search.session import Session

TELL_EVERY_S = 5.0
USUAL = MappingLimits()
SM_NAMES = frozenset({"sm", "sms"})


def region(given: argparse.Namespace) -> int:
    """Map where around its smallest case a finding shows, print it and keep it beside the finding."""
    path = store.locate(given.file, STORE)
    recorded, signature = _one(chosen(read(path), given.finding))
    op = op_of(recorded)
    options = options_for(
        recorded,
        libraries=tuple(given.libraries),
        time_limit_s=given.time_limit,
        engine=engine_of(given.engine),
    )
    subject = MappedFailure(
        finding=recorded.id,
        op=op,
        case=recorded.case,
        signature=signature,
        axes=_axes(given.axes, op) if given.axes else None,
        libraries=options.libraries,
        versions=versions(),
    )
    before = (recorded.needs,) if recorded.needs else ()
    found, broken = _map(subject, before, options, MappingLimits(points=given.points, seconds=given.seconds))
    screen = console()
    if found.points:
        screen.print(render(found), soft_wrap=True)
        screen.print(Text(f"kept in {save(found, path, STORE)}"), soft_wrap=True)
    if broken:
        raise broken
    return _status(found)


def add_options(parser: Parser) -> None:
    """The options of `harness region`."""
    parser.epilog = (
        "Exit status: 0 the map was made, as far as points and seconds went, 1 the smallest case does not show the "
        "failure any more, 2 usage or harness error, 3 it could not be judged, 130 interrupted before it was judged."
    )
    parser.add_argument("file", metavar="FINDING", help="the id of a finding, or a finding or report as JSON")
    parser.add_argument("--finding", metavar="N|ID", help="this finding of a report")
    parser.add_argument(
        "--axes",
        metavar="A,B",
        help="the plot's axes, two of the op's dims or SM (usually T,SM, or the two that matter)",
    )
    parser.add_argument(
        "--points", type=positive, default=USUAL.points, metavar="N", help="at most so many cases (usually %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=duration, default=USUAL.seconds, metavar="S", help="at most so long (usually %(default)g)"
    )
    add_libraries(parser)
    add_engine(parser)


def _one(recorded: tuple[Recorded, ...]) -> tuple[Recorded, Signature]:
    one, *others = recorded
    if others:
        raise UsageError(f"the file holds {len(recorded)} findings: --finding says which, by its number or id")
    if one.signature is None:
        raise UsageError("the file holds a bare case: a region is that of a failure, and a finding says which")
    return one, one.signature


def _axes(text: str, op: Op) -> tuple[str, str]:
    """Two different axes of the op, as `--axes` names them."""
    names = tuple(SMS if name.strip().lower() in SM_NAMES else name.strip() for name in text.split(","))
    for name in names:
        if name != SMS and name not in op.dims:
            raise unknown("axis", name, (*op.dims, "SM"))
    match names:
        case (up, across) if up != across:
            return up, across
        case _:
            raise UsageError(f"--axes {text}: it takes two different axes, such as T,SM")


def _map(
    subject: MappedFailure, before: tuple[Case, ...], options: Options, limits: MappingLimits
) -> tuple[Region, HarnessError | None]:
    """The map, as far as an interrupt or an error of the harness let it come."""
    broken: HarnessError | None = None
    with Session(options) as session, Interrupts() as interrupts:

        def execute(wanted: RunRequest) -> Run:
            return session.pool.run_alone(wanted, before) if before else session.pool.run(wanted)

        looker = Looker(subject.op, subject.signature, session.judge, execute)
        mapper = Mapper(subject, looker, limits, Telling(TELL_EVERY_S, interrupts))
        try:
            mapper.run()
        except HarnessError as error:
            broken = error
        except KeyboardInterrupt:
            pass
        return mapper.region(), broken


def _status(found: Region) -> int:
    if not found.points:
        return INTERRUPTED
    if found.ended is not Ended.NOT_SHOWN:
        return CLEAN
    return NOTHING_JUDGED if found.count(Outcome.ABSTAIN) else FINDINGS
