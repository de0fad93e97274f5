"""`harness run`."""

import argparse
import shlex
import tempfile
from contextlib import suppress
from datetime import date
from pathlib import Path

from harness import libraries
from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import (
    add_fail_on,
    add_known,
    add_libraries,
    devices_of,
    json_path,
    libraries_of,
    positive,
)
from harness.cli.output import console, print_lines, show
from harness.cli.search_output import FirstError, write
from harness.documents.campaign import CampaignReport
from harness.drafts.seen_calls import FOLDER as CALLS
from harness.drafts.seen_calls import store as store_calls
from harness.errors import UsageError
from harness.findings import store
from harness.findings.known_issues import read_known_issues
from harness.findings.search_log import SearchLog
from harness.findings.versions import versions
from harness.model.finding import Finding
from harness.model.verdict import Severity
from harness.oracles import registry
from harness.reports.finding_text import Sources, quoted, render
from harness.reports.watch_summary import watch_summary
from harness.search.options import load_devices
from harness.search.session import prepared
from harness.watched.command_process import CommandEnd, run_command, watch_plan, watched_environment
from harness.watched.launch_suites import LaunchRepeater
from harness.watched.watch_records import PER_LAUNCH, PLAN, read_calls, read_checks, read_failures
from harness.watched.watch_report import Seen, WatchedCommand, findings_of, report_of_watch
from harness.wire import to_json

USUAL_DEVICE = "b200"


def run(given: argparse.Namespace) -> int:
    """Run a command on the emulated GPU, and report what its launches show."""
    if not given.words:
        raise UsageError("name the command after two dashes: harness run -- pytest tests (see harness run --help)")
    path = json_path(given.json)
    issues = read_known_issues(given.known, date.today())  # noqa: DTZ011 - a date that people write has no zone
    (device, *others) = load_devices(devices_of(given) or USUAL_DEVICE, given.sm)
    if others:
        raise UsageError(f"--device names {1 + len(others)} GPUs: a command runs on one")
    given_libraries = libraries_of(given)
    library_paths = libraries.resolve(given_libraries, cache=given.settings.cache)
    oracles = tuple(registry.find(name).name for name in given.oracle) or PER_LAUNCH
    if wrong := [name for name in oracles if name not in PER_LAUNCH]:
        raise UsageError(f"{', '.join(wrong)} needs a suite: harness run asks {', '.join(PER_LAUNCH)}")
    command = WatchedCommand(
        words=tuple(given.words),
        device=device,
        options=_options(given, device.slug, given_libraries),
        libraries=given_libraries,
    )
    plan = watch_plan(device, oracles, tuple(map(str, library_paths)))
    with tempfile.TemporaryDirectory(prefix="harness-run-") as name:
        folder = Path(name)
        (folder / PLAN).write_text(to_json(plan), encoding="utf-8")
        end = run_command(command.words, watched_environment(given.environment, folder, library_paths))
        seen = Seen(checks=read_checks(folder), failures=read_failures(folder))
        store_calls(read_calls(folder), given_libraries, prepared(CALLS))
        sources, errors = Sources(roots=tuple(map(Path, library_paths))), FirstError()
        log = SearchLog(store.FOLDER, lambda finding: render(finding, sources).plain, versions())

        def keep(finding: Finding) -> None:
            (complete,) = quoted((finding,), sources)
            errors.attempt(lambda: log.keep(finding.fail.signature, complete))

        found = findings_of(seen, command)
        for one in found:
            keep(one.finding)
        if not end.was_interrupted:
            with suppress(KeyboardInterrupt):  # what was found is printed all the same
                LaunchRepeater(folder, given.settings, keep).repeat(found)
    findings = tuple(log.findings.values())
    report = report_of_watch(seen, command, findings, issues, end)
    if path:
        errors.attempt(lambda: write(report, path))
    screen = console()
    for finding in findings:
        show(screen, render(finding, sources, report.known_findings))
    print_lines(watch_summary(report, seen.launches, shlex.join(command.words), end.status))
    errors.raise_kept()
    return _status(report, end, Severity(given.fail_on))


def _status(report: CampaignReport, end: CommandEnd, fail_on: Severity) -> int:
    """Return 1 if there are findings, or else the command's own status."""
    if report.failures(fail_on):
        return ExitStatus.FINDINGS
    if end.was_interrupted:
        return ExitStatus.INTERRUPTED
    if end.status:
        return end.status
    return ExitStatus.CLEAN if report.checked else ExitStatus.NOTHING_CHECKED


def _options(given: argparse.Namespace, slug: str, given_libraries: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options that repeat the run."""
    sm_count = ("--sm", str(given.sm)) if given.sm else ()
    return ("--device", slug, *sm_count, *(word for one in given_libraries for word in ("--with", one)))


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness run -- pytest tests/test_norm.py
  harness run --device rtx-pro-6000 -- python train.py --steps 2
  harness run --with fla-core==0.6.0 -- python -m pytest -n 2 tests

exit status: 1 findings; otherwise the status of the command, or 3 if it is 0 and no launch could be checked;
2 usage or harness error, 130 interrupted without findings
"""
    parser.add_argument("words", nargs="*", metavar="-- COMMAND", help="the command and its arguments")
    parser.add_argument(
        "--device", metavar="NAME", help=f"the GPU to emulate, by name (default: {USUAL_DEVICE}, or the project's)"
    )
    parser.add_argument("--sm", type=positive, metavar="N", help="emulate N SMs (default: the device's own SM count)")
    parser.add_argument(
        "--oracle",
        action="append",
        default=[],
        metavar="NAME",
        help="only this oracle: write-overlap, bounds, …; repeatable (default: all that need no reference)",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON")
    add_known(parser)
    add_fail_on(parser)
    add_libraries(parser)
