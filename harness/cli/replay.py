"""`harness replay`."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rich.text import Text

from harness.cli.command import ExitStatus, Parser
from harness.cli.common_options import (
    add_engine,
    add_fail_on,
    add_libraries,
    add_no_resident,
    add_sanitizer,
    add_show_output,
)
from harness.cli.finding_choice import add_finding, add_trust, locate, read_findings, recorded_in
from harness.cli.output import console, show
from harness.errors import UsageError
from harness.findings.recorded_cases import Recorded
from harness.findings.replays import FindingState, ReplayAttempt, replay_each, summary_of
from harness.findings.rerun import ReplayStatus, options_for, replay
from harness.findings.trust import refuse_foreign_code
from harness.model.engine_traits import PTX, PTX_COMPARISON, VIRTUAL, EngineTraits
from harness.model.finding import Finding
from harness.model.verdict import Severity
from harness.oracles.compiled_code import CompiledCode
from harness.reports.finding_text import Sources, render
from harness.search.engine_choice import parse_engine
from harness.search.options import Options, sanitizer_for
from harness.search.session import Session
from harness.workers.fork_servers.residents import Residents

PASS_BLAME_S = 400.0
"""The time limit of a case whose kernel is compiled without each pass of the compiler: a minute is usual."""


def run(arguments: argparse.Namespace) -> ExitStatus:
    """Run recorded cases again, each in a fresh process, and print what they show now."""
    if arguments.pass_blame:
        _refuse_pass_blame(arguments)
    if arguments.all:
        return _replay_all(arguments)
    if arguments.file is None:
        raise UsageError("name the id of a stored finding or a file, or --all for every stored finding")
    fail_on = Severity(arguments.fail_on)
    is_failed = is_unchecked = False
    screen = console()
    for recorded in read_findings(locate(arguments.file), arguments.finding):
        options = _options_for(recorded, arguments)
        with Session(options) as session:
            replayed = replay(recorded, session)
            sources = Sources(roots=session.sources)
        for finding in _with_passes(replayed.same, options) if arguments.pass_blame else replayed.same:
            show(screen, render(finding, sources))
        if replayed.other_findings:
            screen.print(Text("other findings of this case:"))
        for finding in replayed.other_findings:
            show(screen, render(finding, sources))
        show(screen, Text(str(replayed)))
        is_failed |= bool(replayed.failures(fail_on))
        is_unchecked |= replayed.status is ReplayStatus.NOT_CHECKED
    if is_failed:
        return ExitStatus.FINDINGS
    return ExitStatus.NOTHING_CHECKED if is_unchecked else ExitStatus.CLEAN


def _with_passes(findings: Sequence[Finding], options: Options) -> Iterator[Finding]:
    """Yield findings with the first wrong value and the blamed pass, where compiled code is wrong."""
    longer = replace(options, engine=PTX_COMPARISON, time_limit_s=max(options.time_limit_s, PASS_BLAME_S))
    with Session(longer) as session:
        for finding in findings:
            yield session.look_into(finding, blames_passes=True)


def _replay_all(arguments: argparse.Namespace) -> ExitStatus:
    """Replay every stored finding, or every one of a file or folder; a line for each."""
    attempts = replay_and_show(
        recorded_in(arguments.file),
        lambda recorded: _options_for(recorded, arguments),
        Residents.allowed_by(arguments.settings),
    )
    show(console(), Text(summary_of(attempts)))
    if any(attempt.failures(Severity(arguments.fail_on)) for attempt in attempts):
        return ExitStatus.FINDINGS
    is_unchecked = any(attempt.state is FindingState.NOT_TRIED for attempt in attempts)
    return ExitStatus.NOTHING_CHECKED if is_unchecked else ExitStatus.CLEAN


def replay_and_show(
    cases: Sequence[Recorded], options_of: Callable[[Recorded], Options], residents: Residents | None
) -> list[ReplayAttempt]:
    """Replay cases, several at once, and print a line for each as soon as it and those before it have ended."""
    screen = console()
    attempts: list[ReplayAttempt] = []
    for attempt in replay_each(cases, options_of, residents):
        show(screen, Text(str(attempt)))
        attempts.append(attempt)
    return attempts


def _options_for(recorded: Recorded, arguments: argparse.Namespace) -> Options:
    refuse_foreign_code(recorded, arguments.libraries, trusted=arguments.trust)
    engine = _engine_for(recorded, arguments)
    return options_for(
        recorded,
        libraries=tuple(arguments.libraries),
        time_limit_s=arguments.time_limit,
        engine=engine,
        sanitizer=sanitizer_for(arguments.sanitizer, engine, arguments.accepts, arguments.settings),
        settings=arguments.settings,
        shows_output=arguments.show_output,
    )


def _refuse_pass_blame(arguments: argparse.Namespace) -> None:
    """Raise if `--pass-blame` stands beside options that it does not go with."""
    if arguments.all:
        raise UsageError("--pass-blame takes minutes for one finding: name it in place of --all")
    engine = parse_engine(arguments.engine)
    if engine is not VIRTUAL and not engine.has_shared_memory:
        raise UsageError(f"--pass-blame reads compiled code, which --engine {engine} does not execute: leave it out")


def _engine_for(recorded: Recorded, arguments: argparse.Namespace) -> EngineTraits:
    """Return the engine that the options name; `--pass-blame` asks for one that executes PTX."""
    engine = parse_engine(arguments.engine)
    if not arguments.pass_blame or engine is not VIRTUAL:
        return engine
    has_flaw = recorded.signature is not None and recorded.signature.oracle == CompiledCode.name
    return PTX if has_flaw else PTX_COMPARISON


def add_options(parser: Parser) -> None:
    parser.epilog = """\
examples:
  harness replay 88892a72                          one of .harness/findings
  harness replay report.json --finding 2           one of a report
  harness replay 88892a72 --with fla-core==0.6.0   with another release
  harness replay 88892a72 --pass-blame             which pass is at fault
  harness replay --all                             every stored finding

exit status: 0 every recorded failure is gone; 1 one shows again, or its case has another error;
2 usage or harness error; 3 a recorded failure could not be checked.
Other warnings of a case are listed, and do not count.
"""
    add_finding(parser, optional=True)
    parser.add_argument(
        "--all", action="store_true", help="replay every stored finding, or every one of FILE, and count what is gone"
    )
    parser.add_argument(
        "--pass-blame",
        action="store_true",
        help="find the first wrong value of compiled code, and the pass of Triton's compiler without which it is right",
    )
    add_trust(parser)
    add_libraries(parser)
    add_fail_on(parser)
    add_engine(parser)
    add_no_resident(parser)
    add_sanitizer(parser)
    add_show_output(parser)
