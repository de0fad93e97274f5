"""Runs a command with its setup, and returns what its processes recorded."""

from collections.abc import Iterable
from pathlib import Path

from harness.engines.cuda.sanitizers.suppressions import Suppression
from harness.watched.attaching import BUILDS
from harness.watched.build_checks import BuildChecks, BuildVerdicts
from harness.watched.command_process import CommandEnd, run_command
from harness.watched.command_setup import CommandSetup
from harness.watched.sanitizer_reports import rest_of_reports
from harness.watched.watch_records import PLAN, read_checks, read_failures, read_uncompiled
from harness.watched.watch_report import Seen, WatchedCommand
from harness.wire import to_json


def watch_command(
    command: WatchedCommand, setup: CommandSetup, folder: Path, accepted: Iterable[Suppression]
) -> tuple[CommandEnd, Seen]:
    """Run a command in the foreground.

    Args:
        command: the command.
        setup: how its processes are started.
        folder: where they write what they see.
        accepted: reports of compute-sanitizer that are no failures.

    Raises:
        UsageError: the command does not exist, or cannot be started.
    """
    (folder / PLAN).write_text(to_json(setup.plan), encoding="utf-8")
    builds = BuildVerdicts()
    if setup.checks_builds:
        with BuildChecks(folder, Path(setup.plan.scratch, BUILDS), setup.plan.device) as checks:
            end = run_command(command.words, setup.environment, setup.before)
            builds = checks.verdicts(is_patient=not end.was_interrupted)
    else:
        end = run_command(command.words, setup.environment, setup.before)
    failures = (*read_failures(folder), *builds.failures)
    if setup.plan.sanitizer is not None:
        failures = (*failures, *rest_of_reports(setup.plan.sanitizer, accepted, failures, command))
    return end, Seen(checks=read_checks(folder), failures=failures, builds=builds, uncompiled=read_uncompiled(folder))
