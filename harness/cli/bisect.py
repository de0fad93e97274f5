"""`harness bisect`."""

import argparse
import json
import sys
import time
from pathlib import Path

from packaging.utils import canonicalize_name
from rich.text import Text

from harness.bisection.histories import Commits, History, Member, MemberTrial, Releases, Tritons
from harness.bisection.member_check import MemberCheck
from harness.bisection.releases import asks_for, pinned, requirement_of
from harness.bisection.stretches import Bisected, Ending, Stretch, bisect, stretches
from harness.bisection.triton_subprocess import PACKAGE as TRITON
from harness.cli.command import (
    CLEAN,
    FINDINGS,
    NOTHING_JUDGED,
    STORE,
    Parser,
    add_engine,
    add_libraries,
    console,
    positive,
)
from harness.cli.replay import chosen
from harness.errors import UsageError
from harness.findings import store
from harness.findings.replay import Recorded, read
from harness.findings.rerun import op_of
from harness.findings.versions import installed, versions
from harness.reports.bisection_table import bisection_document, sentence, table
from harness.search.options import engine_of

NEWEST = ""
"""`--fixed` without a value."""


def bisection(given: argparse.Namespace) -> int:
    """Find where a finding came, and where it went, among releases or commits."""
    found = chosen(read(store.locate(given.file, STORE)), given.finding)
    if len(found) != 1:
        raise UsageError(f"the file holds {len(found)} findings: --finding says which, by its number or id")
    recorded = found[0]
    op_of(recorded)  # what is wrong with the suite is no release's fault
    report = Path(given.json) if given.json else None
    if report and not report.absolute().parent.is_dir():
        raise UsageError(f"--json {report}: there is no folder {report.parent}")
    history = _history(given, recorded)
    wanted = _stretches(given, recorded, history)
    begun = time.monotonic()
    bisected = bisect(history, wanted, _tell)
    conclusion = sentence(bisected, str(recorded.signature or recorded.id))
    if report:
        document = bisection_document(bisected, recorded.id, conclusion) | {"versions": dict(versions())}
        report.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    screen = console()
    for line in table(bisected):
        screen.print(Text(line), soft_wrap=True)
    looked = f"looked at {len(bisected.looks)} of {bisected.members} in {time.monotonic() - begun:.0f} s"
    screen.print(Text(f"{looked}\n{conclusion}"), soft_wrap=True)
    return _status(bisected)


def add_options(parser: Parser) -> None:
    """The options of `harness bisect`."""
    parser.epilog = (
        "Exit status: 0 each border that was asked for was found, 1 the bug shows everywhere or nowhere, 2 usage or "
        "harness error, 3 nothing could be judged."
    )
    parser.add_argument("file", metavar="FILE|ID", help="a finding, report or case as JSON, or the id of a finding")
    parser.add_argument("--finding", metavar="N|ID", help="this finding of a report")
    parser.add_argument(
        "--package",
        metavar="NAME",
        help="whose releases to bisect; triton is one too (usually the library that the finding was made with)",
    )
    parser.add_argument("--repo", metavar="PATH", help="bisect the commits of this git repository in its place")
    parser.add_argument(
        "--bad",
        metavar="REV",
        help="a release or commit that shows it (usually the one that the finding was made with; HEAD)",
    )
    parser.add_argument(
        "--good",
        metavar="REV",
        help="one that does not: before it came, or after it went (usually the oldest release)",
    )
    parser.add_argument(
        "--fixed",
        nargs="?",
        const=NEWEST,
        metavar="REV",
        help="look for the first good one after the bad one, up to this (usually the newest release; HEAD)",
    )
    parser.add_argument(
        "--runs",
        type=positive,
        default=1,
        metavar="N",
        help="run the case up to N times at each; bad if one run shows it (usually %(default)s)",
    )
    parser.add_argument("--json", metavar="FILE", help="write what came of it there as JSON too")
    add_libraries(parser)
    add_engine(parser)


def _history(given: argparse.Namespace, recorded: Recorded) -> History:
    package = canonicalize_name(given.package) if given.package else None
    if given.repo and package == TRITON:
        raise UsageError("--repo cannot be Triton's: only its releases can be bisected")
    if not given.repo and package is None:
        package = _package_of(recorded)
    if package is not None and any(asks_for(one, package) for one in given.libraries):
        raise UsageError(f"--with names {package}, which is bisected: its releases come one after the other")
    trial = MemberTrial(
        recorded=recorded,
        beside=tuple(given.libraries) or _beside(recorded.libraries, package),
        engine=engine_of(given.engine),
        time_limit_s=given.time_limit,
        runs=given.runs,
    )
    if given.repo:
        return Commits(Path(given.repo), trial)
    assert package is not None
    return Tritons(package, trial) if package == TRITON else Releases(package, trial)


def _package_of(recorded: Recorded) -> str:
    named = [one for one in map(requirement_of, recorded.libraries) if one is not None]
    if len(named) != 1:
        raise UsageError("--package is needed: the finding was not made with one released library")
    return canonicalize_name(named[0].name)


def _beside(libraries: tuple[str, ...], package: str | None) -> tuple[str, ...]:
    """What remains of the libraries on record without the one that is bisected."""
    if package == TRITON:
        return libraries
    others = tuple(one for one in libraries if package is None or not asks_for(one, package))
    if len(others) < len(libraries):
        return others
    if len(libraries) > 1:
        raise UsageError(
            f"the finding was made with {', '.join(libraries)}: which of them is bisected? Name the others by --with"
        )
    return ()  # the one library on record, in whatever form, is the one that is bisected


def _stretches(given: argparse.Namespace, recorded: Recorded, history: History) -> tuple[Stretch, ...]:
    bad = history.find(given.bad or _usual_bad(given, recorded, history.subject), "--bad")
    good = history.find(given.good, "--good") if given.good else None
    match given.fixed:
        case None:
            return stretches(history, bad, good, fixed=None)
        case "":
            return stretches(history, bad, good, history.newest())
        case name:
            return stretches(history, bad, good, history.find(name, "--fixed"))


def _usual_bad(given: argparse.Namespace, recorded: Recorded, package: str) -> str:
    if given.repo:
        return "HEAD"
    if package == TRITON:
        return installed(TRITON)
    releases = [pinned(one) for one in recorded.libraries if asks_for(one, package)]
    if len(releases) != 1 or releases[0] is None:
        raise UsageError(f"--bad is needed: the finding does not say which release of {package} it was made with")
    return releases[0]


def _status(bisected: Bisected) -> int:
    endings = {one.ending for one in bisected.searched}
    if endings == {Ending.FOUND}:
        return CLEAN
    return NOTHING_JUDGED if endings == {Ending.NOT_JUDGED} else FINDINGS


def _tell(member: Member, look: MemberCheck | None) -> None:
    if look is None:
        print(f"looking at {member.name} {member.note}".rstrip(), file=sys.stderr)
    else:
        print(f"  {look.shown}: {look.words}", file=sys.stderr)
