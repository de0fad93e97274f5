"""`harness run`."""

import argparse
import shlex
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import date
from pathlib import Path

from harness import libraries
from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import (
    add_accepts,
    add_fail_on,
    add_known,
    add_libraries,
    devices_of,
    json_path,
    libraries_of,
    minutes,
    positive,
)
from harness.cli.output import console, print_lines, show
from harness.cli.search_output import FirstError, write
from harness.documents.campaign import CampaignReport
from harness.drafts.seen_calls import FOLDER as CALLS
from harness.drafts.seen_calls import store as store_calls
from harness.engines.cuda.emulation import shortfalls
from harness.engines.cuda.gpus.inventory import RealGpu, profile_of
from harness.engines.cuda.sanitizers.instrumentation import names_triton_sanitizer
from harness.engines.cuda.sanitizers.sanitizer_command import (
    COMMON_OPTIONS,
    WHOLE_COMMAND_OPTIONS,
    Sanitizing,
    sanitizing,
)
from harness.engines.cuda.sanitizers.suppressions import read_suppressions
from harness.errors import UsageError
from harness.findings import store
from harness.findings.known_issues import read_known_issues
from harness.findings.search_log import SearchLog
from harness.findings.trust import remember
from harness.findings.versions import versions
from harness.model.compute_sanitizer_report import Tool
from harness.model.device import DeviceProfile
from harness.model.engine_traits import ENGINES, VIRTUAL, EngineTraits
from harness.model.finding import Finding
from harness.model.verdict import Severity
from harness.project_settings import JoinedByCommas
from harness.reports.finding_text import Sources, quoted, render
from harness.reports.summary import watch_summary
from harness.search import USUAL_DEVICE
from harness.search.engine_choice import parse_engine
from harness.search.leasing import leased
from harness.search.options import check_sanitizer_engine, load_devices
from harness.search.session import prepared
from harness.watched.command_process import CommandEnd
from harness.watched.command_watch import CommandSetup, on_hardware, virtual_setup, watch_command, watched_oracles
from harness.watched.launch_suites import LaunchRepeater
from harness.watched.watch_records import read_calls
from harness.watched.watch_report import WatchedCommand, findings_of, report_of_watch


def run(options: argparse.Namespace) -> int:
    """Run a command on the emulated GPU or a hardware GPU, and report what its launches show."""
    if not options.words:
        raise UsageError("name the command after two dashes: harness run -- pytest tests (see harness run --help)")
    path = json_path(options.json)
    issues = read_known_issues(options.known, date.today())  # noqa: DTZ011 - a date that people write has no zone
    engine, errors = _engine_of(options), FirstError()
    tool = _sanitizing(options, engine, WHOLE_COMMAND_OPTIONS)
    oracles = watched_oracles(options.oracle, tool, is_virtual=not engine.needs_gpu)
    with ExitStack() as gpus, tempfile.TemporaryDirectory(prefix="harness-run-") as name:
        gpu = gpus.enter_context(leased(1, options.settings))[0] if engine.needs_gpu else None
        folder, command = Path(name), _command_of(options, gpu)
        setup = _setup_of(options, command, oracles, folder)
        if gpu is not None:
            setup = on_hardware(setup, gpu, tool, options.accepts, folder)
        else:
            setup = replace(setup, plan=replace(setup.plan, engine=engine.name))
        end, seen = watch_command(command, setup, folder, tool.suppressions if tool else (), _limit_s(options))
        gpus.close()  # the launches are repeated by another holder of the GPU
        store_calls(read_calls(folder), command.libraries, prepared(CALLS))
        sources = Sources(roots=tuple(map(Path, setup.plan.libraries)))
        shown, log = findings_of(seen, command), _Log(sources, errors)
        for watched in shown:
            log.keep(watched.finding)
        if not end.was_interrupted:
            again = _sanitizing(options, engine, COMMON_OPTIONS)
            with suppress(KeyboardInterrupt):  # the findings so far are printed all the same
                LaunchRepeater(folder, options.settings, log.keep, engine, again).repeat(shown)
    report = report_of_watch(seen, command, log.findings, issues, end)
    if path:
        errors.attempt(lambda: write(report, path))
    screen = console()
    for finding in log.findings:
        show(screen, render(finding, sources, report.known_findings))
    if gpu is not None:
        print_lines(f"on {gpu.name}: {shortfall}" for shortfall in shortfalls(command.device, gpu, limits_work=False))
    print_lines(watch_summary(report, seen.launches, shlex.join(command.words), end.status))
    errors.raise_kept()
    return _status(report, end, Severity(options.fail_on))


def _limit_s(options: argparse.Namespace) -> float | None:
    return 60 * options.minutes if options.minutes else None


class _Log:
    """The findings of a command, stored as they come; a later one replaces the one with its signature."""

    def __init__(self, sources: Sources, errors: FirstError) -> None:
        self._sources, self._errors = sources, errors
        self._log = SearchLog(store.FOLDER, lambda finding: render(finding, sources).plain, versions())

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self._log.findings.values())

    def keep(self, finding: Finding) -> None:
        (complete,) = quoted((finding,), self._sources)
        self._errors.attempt(lambda: self._log.keep(finding.fail.signature, complete))


def _command_of(options: argparse.Namespace, gpu: RealGpu | None) -> WatchedCommand:
    device, under_test = _device_of(options, gpu, _engine_of(options)), libraries_of(options)
    remember((), under_test)
    return WatchedCommand(
        words=tuple(options.words),
        device=device,
        options=_options(options, device.slug, under_test),
        libraries=under_test,
        engine_options=_engine_options(options),
    )


def _setup_of(
    options: argparse.Namespace, command: WatchedCommand, oracles: tuple[str, ...], folder: Path
) -> CommandSetup:
    """Return the setup on the virtual GPU, with the libraries under test in place."""
    paths = tuple(map(str, libraries.resolve(command.libraries, cache=options.settings.cache)))
    return virtual_setup(command.device, oracles, paths, folder, options.environment)


def _engine_of(options: argparse.Namespace) -> EngineTraits:
    engine = parse_engine(options.engine)
    if not engine.runs_commands:
        able = " or ".join(other.name for other in ENGINES if other.runs_commands)
        raise UsageError(f"--engine {options.engine}: a command runs on {able}")
    return engine


def _sanitizing(arguments: argparse.Namespace, engine: EngineTraits, options: Mapping[str, str]) -> Sanitizing | None:
    if arguments.sanitizer and names_triton_sanitizer(arguments.sanitizer):
        raise UsageError(
            f"--sanitizer {arguments.sanitizer}: harness fuzz takes Triton's sanitizers, a command runs under "
            f"compute-sanitizer ({', '.join(Tool)})"
        )
    check_sanitizer_engine(arguments.sanitizer, engine)
    return (
        sanitizing(arguments.sanitizer, arguments.settings, read_suppressions(arguments.accepts), options)
        if arguments.sanitizer
        else None
    )


def _device_of(options: argparse.Namespace, gpu: RealGpu | None, engine: EngineTraits) -> DeviceProfile:
    if gpu is not None and options.device is None:
        own = profile_of(gpu)
        return own.with_sm_count(options.sm) if options.sm else own
    first, *others = load_devices(
        options.device if gpu is not None else devices_of(options) or USUAL_DEVICE, options.sm, engine
    )
    if options.device and others:
        raise UsageError(f"--device names {1 + len(others)} GPUs: a command runs on one")
    return first


def _status(report: CampaignReport, end: CommandEnd, fail_on: Severity) -> int:
    """Return 1 if there are findings, or else the command's own status."""
    if report.failures(fail_on):
        return ExitStatus.FINDINGS
    if end.was_interrupted:
        return ExitStatus.INTERRUPTED
    if end.status:
        return end.status
    return ExitStatus.CLEAN if report.checked else ExitStatus.NOTHING_CHECKED


def _options(options: argparse.Namespace, slug: str, under_test: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options that repeat the run."""
    sm_count = ("--sm", str(options.sm)) if options.sm else ()
    is_named = options.device is not None or options.engine == VIRTUAL.name
    device = ("--device", slug) if is_named else ()
    return (
        *_engine_options(options),
        *device,
        *sm_count,
        *(word for library in under_test for word in ("--with", library)),
    )


def _engine_options(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the options that choose a hardware GPU; none for the virtual one."""
    sanitizer = ("--sanitizer", options.sanitizer) if options.sanitizer else ()
    return ("--engine", options.engine, *sanitizer) if options.engine != VIRTUAL.name else ()


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness run -- pytest tests/test_norm.py
  harness run --device rtx-pro-6000 -- python train.py --steps 2
  harness run --with fla-core==0.6.0 -- python -m pytest -n 2 tests
  harness run --engine cuda --sanitizer memcheck -- pytest tests

exit status: 1 findings; otherwise the status of the command, or 3 if it is 0 and no launch could be checked;
2 usage or harness error, 130 interrupted without findings
"""
    parser.add_argument("words", nargs="*", metavar="-- COMMAND", help="the command and its arguments")
    parser.add_argument(
        "--device",
        action=JoinedByCommas,
        metavar="NAME",
        help="the GPU to emulate, by name (default: the first of the project's, or else "
        f"{USUAL_DEVICE}; with --engine cuda, none)",
    )
    parser.add_argument("--sm", type=positive, metavar="N", help="emulate N SMs (default: the device's own SM count)")
    parser.add_argument(
        "--oracle",
        action="append",
        default=[],
        metavar="NAME",
        help="only this oracle: write-overlap, bounds, …; repeatable (default: all that need no reference)",
    )
    parser.add_argument(
        "--engine",
        default=VIRTUAL.name,
        metavar="NAME",
        help="where kernels run: virtual, ptx, or cuda (a GPU of this machine) (default: %(default)s)",
    )
    parser.add_argument(
        "--sanitizer",
        metavar="TOOL",
        help=f"run the command under compute-sanitizer ({', '.join(Tool)}); then its options",
    )
    add_accepts(parser)
    parser.add_argument(
        "--minutes", type=minutes, metavar="M", help="end the command after M minutes, and report what it showed"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the report as JSON")
    add_known(parser)
    add_fail_on(parser)
    add_libraries(parser)
