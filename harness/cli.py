"""The command line: `harness fuzz`, `replay`, `devices`, `doctor`.

Exit status: 0 clean, 1 findings, 2 usage or harness error, 3 nothing could be judged, 130 interrupted without findings.
"""

import argparse
import json
import os
import re
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, Protocol

from hypothesis.configuration import set_hypothesis_home_dir
from rich.console import Console
from rich.text import Text

from harness import __version__
from harness.devices import catalogue
from harness.errors import HarnessError, UsageError, unknown
from harness.findings import store
from harness.findings.again import options_for
from harness.findings.again import replay as replay_recorded
from harness.findings.replay import Recorded, read
from harness.findings.report import Report, counts, report_document, report_of
from harness.model.finding import Finding
from harness.model.verdict import Outcome, Severity
from harness.oracles import registry
from harness.reports.doctor import examine
from harness.reports.finding import Sources, render
from harness.reports.interrupts import Interrupts
from harness.reports.progress import Progress
from harness.reports.summary import summary
from harness.search import USUAL_DEVICES
from harness.search.options import TIME_LIMIT_S, VIRTUAL, Options, load_devices, load_ops, suite_files
from harness.search.plan import CaseBudget, TimeBudget
from harness.search.session import FOLDER, Session, prepared
from harness.workers.spec import Isolation

CLEAN, FINDINGS, BROKEN, NOTHING_JUDGED, INTERRUPTED = 0, 1, 2, 3, 130
USUAL_CASES = 300
ENGINES = {"virtual": VIRTUAL}
"""Short names; any other is `module:factory`."""
STORE = FOLDER / "findings"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit status."""
    try:
        given = _parse(arguments)
        command: Command = given.command
        return command(given)
    except HarnessError as error:
        print(f"harness: {error}", file=sys.stderr)
        return BROKEN
    except KeyboardInterrupt:
        print("harness: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `harness fuzz … | head`: nobody reads on, and Python would say so at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN


class Command(Protocol):
    """What a subcommand does."""

    def __call__(self, given: argparse.Namespace, /) -> int:
        """Do it; the result is the exit status."""
        ...


# --- fuzz -------------------------------------------------------------------------------------------------------------


def fuzz(given: argparse.Namespace) -> int:
    """Search for failures, make them small, print and keep them."""
    options = _options(given)
    report_path = Path(given.json) if given.json else None
    if report_path and not report_path.absolute().parent.is_dir():
        raise UsageError(f"--json {report_path}: there is no folder {report_path.parent}")
    set_hypothesis_home_dir(prepared(FOLDER) / "hypothesis")
    with Session(options) as session:
        report, broken = _search(session)
        sources = Sources(roots=session.sources)
    store.save(report.findings, STORE)
    if report_path:
        report_path.write_text(json.dumps(report_document(report), indent=2) + "\n", encoding="utf-8")
    console = _console()
    for finding in report.findings:
        console.print(render(finding, sources), soft_wrap=True)
    for line in summary(report):
        console.print(Text(line), soft_wrap=True)
    if broken:
        raise broken
    return _status(report, Severity(given.fail_on))


def _search(session: Session) -> tuple[Report, HarnessError | None]:
    """The whole search; an interrupt or an error of the harness ends it early, with what was found so far.

    Raises:
        HarnessError: nothing was found so far.
    """
    options = session.options
    findings = list[Finding]()
    cases = options.budget.cases if isinstance(options.budget, CaseBudget) else None
    interrupted, broken = False, None
    with (
        Interrupts() as interrupts,
        Progress(Console(stderr=True, highlight=False), interrupts, cases=cases) as progress,
    ):
        campaign = session.campaign(options.plan, progress)
        try:
            campaign.run()
            session.triage(campaign.tally, progress, findings.append)
        except KeyboardInterrupt:
            interrupted = True
        except HarnessError as error:
            if not campaign.tally.sightings:
                raise
            interrupted, broken = True, error
    findings += session.unconfirmed(campaign.tally, findings)
    return report_of(options, campaign.tally, findings, interrupted=interrupted), broken


def _options(given: argparse.Namespace) -> Options:
    suites = tuple(dict.fromkeys(file for suite in given.suites for file in suite_files(suite)))
    return Options(
        suites=suites,
        devices=load_devices(given.device, given.sm),
        oracles=tuple(registry.find(name).name for name in given.oracle),
        ops=load_ops(suites, tuple(given.op)),
        budget=TimeBudget(seconds=60 * given.minutes)
        if given.minutes
        else CaseBudget(cases=given.cases or USUAL_CASES),
        seed=secrets.randbelow(2**32) if given.seed is None else given.seed,
        processes=given.processes or len(os.sched_getaffinity(0)),
        fixed_sm_count=given.sm is not None,
        libraries=tuple(given.libraries),
        isolation=Isolation(given.isolation),
        time_limit_s=given.time_limit,
        engine=_engine(given.engine),
    )


def _engine(name: str) -> str:
    return ENGINES.get(name, name)


def _status(report: Report, fail_on: Severity) -> int:
    if report.bad(fail_on):
        return FINDINGS
    if report.interrupted:
        return INTERRUPTED
    return CLEAN if report.judged else NOTHING_JUDGED


# --- replay -----------------------------------------------------------------------------------------------------------


def replay(given: argparse.Namespace) -> int:
    """Run recorded cases again, each in a fresh process, and print what they show now."""
    fail_on = Severity(given.fail_on)
    failed = judged = False
    console = _console()
    for recorded in _chosen(read(store.locate(given.file, STORE)), given.finding):
        options = options_for(
            recorded,
            libraries=tuple(given.libraries),
            time_limit_s=given.time_limit,
            engine=_engine(given.engine),
        )
        with Session(options) as session:
            replayed = replay_recorded(recorded, session)
            sources = Sources(roots=session.sources)
        for finding in replayed.findings:
            console.print(render(finding, sources), soft_wrap=True)
        console.print(Text(str(replayed)), soft_wrap=True)
        failed |= any(counts(finding, fail_on) for finding in replayed.findings)
        judged |= replayed.outcome is not Outcome.ABSTAIN
    if failed:
        return FINDINGS
    return CLEAN if judged else NOTHING_JUDGED


def _chosen(recorded: tuple[Recorded, ...], wanted: str | None) -> tuple[Recorded, ...]:
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


# --- devices and doctor -----------------------------------------------------------------------------------------------


def devices(given: argparse.Namespace) -> int:
    """List the GPUs that a case can pretend to run on."""
    del given
    known = catalogue.devices()
    slug = max(len(device.slug) for device in known)
    print(f"{'device':<{slug}}  {'arch':<9}  {'target':<6}  {'SMs':>4}  {'shared':>7}  {'L2':>7}  name")
    for device in known:
        shared, cache = f"{device.shared_bytes_per_block // 1024} KiB", f"{device.l2_bytes // 2**20} MiB"
        print(
            f"{device.slug:<{slug}}  {device.architecture:<9}  sm_{device.arch:<3}  {device.sm_count:>4}  {shared:>7}  "
            f"{cache:>7}  {device.name}"
        )
    return CLEAN


def doctor(given: argparse.Namespace) -> int:
    """Say what is here, and how to get what is missing."""
    del given
    lacking = False
    print(f"kernel-harness {__version__}")
    for part in examine():
        if part.found:
            print(f"  ok       {part.name}: {part.found}")
        else:
            print(f"  {'MISSING' if part.needed else 'none':<8} {part.name}: {part.provide}")
            lacking |= part.needed
    return BROKEN if lacking else CLEAN


# --- the parser -------------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, with the nearest option that exists."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    given, rest = _parser().parse_known_args(arguments)
    if rest:
        chosen: _Parser = given.parser
        name = rest[0].partition("=")[0]
        if not name.startswith("-"):
            raise UsageError(f"unexpected argument {name!r} (see {chosen.prog} --help)")
        raise unknown("option", name, set(re.findall(r"--[a-z][a-z-]*", chosen.format_help())))
    return given


def _parser() -> _Parser:
    top = _Parser(
        prog="harness", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=f"kernel-harness {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)

    def add(name: str, command: Command, text: str) -> _Parser:
        parser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        parser.set_defaults(command=command, parser=parser)
        return parser

    _fuzz_options(add("fuzz", fuzz, "search for failures of the ops that suite files declare"))
    _replay_options(add("replay", replay, "run the case of a finding again, in a fresh process"))
    add("devices", devices, "list the GPUs that a case can pretend to run on")
    add("doctor", doctor, "say what is installed, and how to get what is missing")
    return top


def _fuzz_options(parser: _Parser) -> None:
    parser.add_argument("suites", nargs="+", metavar="SUITE", help="a suite file, or a folder of them")
    parser.add_argument("--op", action="append", default=[], metavar="NAME", help="only this op; repeatable")
    parser.add_argument(
        "--device",
        metavar="NAME,…",
        help=f"slugs, generations or targets: h200,blackwell,sm_120 (usually {USUAL_DEVICES})",
    )
    parser.add_argument(
        "--sm", type=_positive, metavar="N", help="pretend that each device has N SMs, and stay with it"
    )
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--cases", type=_positive, metavar="N", help=f"how many cases to try (usually {USUAL_CASES})")
    budget.add_argument("--minutes", type=_duration, metavar="M", help="begin new cases for so long")
    parser.add_argument("--seed", type=int, metavar="S", help="the same seed gives the same cases (else a random one)")
    parser.add_argument("--json", metavar="FILE", help="write the report there as JSON too")
    parser.add_argument(
        "--isolation", choices=tuple(Isolation), default=Isolation.WORKER, help="how far cases are kept apart"
    )
    parser.add_argument("--processes", type=_positive, metavar="N", help="cases at once (usually one a core)")
    parser.add_argument(
        "--oracle", action="append", default=[], metavar="NAME", help="ask only this oracle; repeatable"
    )
    _common_options(parser)


def _replay_options(parser: _Parser) -> None:
    parser.add_argument("file", metavar="FILE|ID", help="a report, finding or case as JSON, or the id of a finding")
    parser.add_argument("--finding", metavar="N|ID", help="only this finding of a report")
    _common_options(parser)


def _common_options(parser: _Parser) -> None:
    parser.add_argument(
        "--with",
        dest="libraries",
        action="append",
        default=[],
        metavar="SPEC",
        help="library under test: a PyPI release, a wheel or a folder; repeatable",
    )
    parser.add_argument(
        "--fail-on",
        choices=tuple(Severity),
        default=Severity.WARNING,
        help="the least severity that makes the exit status 1",
    )
    parser.add_argument(
        "--engine", default="virtual", metavar="NAME", help="where cases run: virtual, or module:factory of another"
    )
    parser.add_argument(
        "--time-limit",
        type=_duration,
        default=TIME_LIMIT_S,
        metavar="SECONDS",
        help="for one case (usually %(default)g)",
    )


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from error
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def _duration(text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes") from error
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no time")
    return value


def _console() -> Console:
    return Console(highlight=False)


if __name__ == "__main__":
    sys.exit(main())
