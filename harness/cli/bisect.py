"""`harness bisect`."""

import argparse
import time
from pathlib import Path

from packaging.utils import canonicalize_name

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import add_engine, add_libraries, json_path, positive
from harness.cli.finding_choice import add_finding, add_trust, locate, read_one_finding
from harness.cli.output import print_lines, print_progress
from harness.documents import files
from harness.errors import UsageError
from harness.findings.bisection.histories import Commits, History, Member, Releases, Tritons
from harness.findings.bisection.member_check import MemberCheck, MemberTrial
from harness.findings.bisection.releases import names_package, pinned_release, requirement_of
from harness.findings.bisection.stored_bisections import save
from harness.findings.bisection.stretches import Bisected, Ending, Stretch, bisect, stretches
from harness.findings.recorded_cases import Recorded
from harness.findings.rerun import op_of
from harness.findings.triton_process import PACKAGE as TRITON
from harness.findings.trust import refuse_foreign_code
from harness.findings.versions import installed, versions
from harness.reports.bisection_table import bisection_document, sentence, table
from harness.search.engine_choice import parse_engine

NEWEST = ""
"""The value of `--fixed` if the option stands alone."""


def run(options: argparse.Namespace) -> ExitStatus:
    """Find where a finding came, and where it went, among releases or commits."""
    path = locate(options.file)
    recorded = read_one_finding(path, options.finding)
    refuse_foreign_code(recorded, options.libraries, trusted=options.trust)
    op_of(recorded)  # a suite that cannot be loaded is an error here, and no evidence against a release
    report = json_path(options.json)
    history = _history(options, recorded)
    searched = _stretches(options, recorded, history)
    started = time.monotonic()
    bisected = bisect(history, searched, _print_check)
    conclusion = sentence(bisected, str(recorded.signature or recorded.id))
    document = bisection_document(bisected, recorded.id, conclusion, versions())
    if report:
        files.write(document, report)
    kept = save(document, path)
    effort = f"checked {len(bisected.checks)} of {bisected.members} in {time.monotonic() - started:.0f} s"
    print_lines([*table(bisected), effort, *([f"kept in {kept}"] if kept else []), conclusion])
    return _status(bisected)


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness bisect 88892a72 --good 0.3.2 --fixed           by releases
  harness bisect 88892a72 --repo ../fla --good v0.3.2    by commits
  harness bisect 88892a72 --package triton --good 3.6.0  by releases of Triton

exit status: 0 every border was found; 1 the finding shows everywhere or nowhere;
2 usage or harness error; 3 nothing could be checked
"""
    add_finding(parser)
    add_trust(parser)
    parser.add_argument(
        "--package",
        metavar="NAME",
        help="bisect the releases of this package, also of triton (default: the library of the finding)",
    )
    parser.add_argument("--repo", metavar="PATH", help="bisect the commits of this git repository instead")
    parser.add_argument(
        "--bad",
        metavar="REV",
        help="a release or commit that shows the finding (default: the release that it was made with, or HEAD)",
    )
    parser.add_argument(
        "--good",
        metavar="REV",
        help="a release or commit that does not: an older one, or a newer one that fixed it "
        "(default: the oldest release)",
    )
    parser.add_argument(
        "--fixed",
        nargs="?",
        const=NEWEST,
        metavar="REV",
        help="search for the first good one after the bad one, up to REV (default: the newest release, or HEAD)",
    )
    parser.add_rare(
        "--runs",
        type=positive,
        default=1,
        metavar="N",
        help="for a flaky finding: run the case up to N times at each, bad if one run shows it (default: %(default)s)",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the result as JSON")
    add_libraries(parser)
    add_engine(parser)


def _history(options: argparse.Namespace, recorded: Recorded) -> History:
    package = canonicalize_name(options.package) if options.package else None
    if options.repo and package == TRITON:
        raise UsageError("--repo cannot be Triton's: only its releases can be bisected")
    if not options.repo and package is None:
        package = _package_of(recorded)
    if package is not None and any(names_package(spec, package) for spec in options.libraries):
        raise UsageError(f"--with names {package}, which is bisected: its releases come one after the other")
    trial = MemberTrial(
        recorded=recorded,
        other_libraries=tuple(options.libraries) or _other_libraries(recorded.libraries, package),
        engine=str(parse_engine(options.engine)),
        time_limit_s=options.time_limit,
        runs=options.runs,
    )
    if options.repo:
        return Commits(Path(options.repo), trial, options.settings)
    assert package is not None
    releases = Tritons if package == TRITON else Releases
    return releases(package, trial, options.settings)


def _package_of(recorded: Recorded) -> str:
    named = [requirement for requirement in map(requirement_of, recorded.libraries) if requirement is not None]
    if len(named) != 1:
        raise UsageError("--package is needed: the finding was not made with one released library")
    return canonicalize_name(named[0].name)


def _other_libraries(libraries: tuple[str, ...], package: str | None) -> tuple[str, ...]:
    """Return the recorded libraries without the one that is bisected."""
    if package == TRITON:
        return libraries
    rest = tuple(spec for spec in libraries if package is None or not names_package(spec, package))
    if len(rest) < len(libraries):
        return rest
    if len(libraries) > 1:
        raise UsageError(
            f"the finding was made with {', '.join(libraries)}: which of them is bisected? Name the others by --with"
        )
    # The only recorded library is the bisected one: a folder or a wheel does not name its package.
    return ()


def _stretches(options: argparse.Namespace, recorded: Recorded, history: History) -> tuple[Stretch, ...]:
    bad = history.find(options.bad or _usual_bad(options, recorded, history.subject), "--bad")
    good = history.find(options.good, "--good") if options.good else None
    match options.fixed:
        case None:
            return stretches(history, bad, good, fixed=None)
        case "":
            return stretches(history, bad, good, history.newest())
        case name:
            return stretches(history, bad, good, history.find(name, "--fixed"))


def _usual_bad(options: argparse.Namespace, recorded: Recorded, package: str) -> str:
    if options.repo:
        return "HEAD"
    if package == TRITON:
        return installed(TRITON)
    releases = [pinned_release(spec) for spec in recorded.libraries if names_package(spec, package)]
    if len(releases) != 1 or releases[0] is None:
        raise UsageError(f"--bad is needed: the finding does not say which release of {package} it was made with")
    return releases[0]


def _status(bisected: Bisected) -> ExitStatus:
    endings = {stretch.ending for stretch in bisected.searched}
    if endings == {Ending.FOUND}:
        return ExitStatus.CLEAN
    return ExitStatus.NOTHING_CHECKED if endings == {Ending.NOT_CHECKED} else ExitStatus.FINDINGS


def _print_check(member: Member, check: MemberCheck | None) -> None:
    if check is None:
        print_progress(f"checking {member.name} {member.note}".rstrip())
    else:
        print_progress(f"  {check.shown}: {check.explanation}")
