"""A watched command: how it is started, run with its setup, and what its processes recorded."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.engines.cuda.emulation import worker_environment
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.sanitizers.sanitizer_command import Sanitizing
from harness.engines.cuda.sanitizers.suppressions import Suppression
from harness.errors import UsageError
from harness.model.device import DeviceProfile
from harness.oracles import registry
from harness.oracles.traits import PromiseScope
from harness.watched.attaching import BUILDS, prepare_environment
from harness.watched.build_checks import FITS, BuildChecks, BuildVerdicts
from harness.watched.command_process import CommandEnd, run_command, watch_plan, watched_environment
from harness.watched.sanitized_command import under_sanitizer
from harness.watched.sanitizer_reports import rest_of_reports
from harness.watched.watch_records import PLAN, WatchPlan, read_checks, read_failures, read_uncompiled
from harness.watched.watch_report import Seen, WatchedCommand
from harness.wire import to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSetup:
    """How a command is started."""

    plan: WatchPlan
    environment: Mapping[str, str]
    before: tuple[str, ...] = ()
    """The program that starts the command, with its options."""
    checks_builds: bool = False
    """True to compile every build to its end for the `resources` oracle."""


def watched_oracles(names: Sequence[str], sanitizing: Sanitizing | None, *, is_virtual: bool) -> tuple[str, ...]:
    """Return the oracles that these names choose for single launches; all of them if there are none.

    Raises:
        UsageError: there is no such oracle, or it needs more than one launch by itself.
    """
    scopes = (
        PromiseScope.LAUNCH,
        *([PromiseScope.REPLAY, PromiseScope.BUILD] if is_virtual else []),
        *([PromiseScope.SANITIZED_PROCESS] if sanitizing else []),
    )
    possible = tuple(name for scope in scopes for name in registry.names_of(scope))
    chosen = tuple(registry.find(name).name for name in names) or possible
    if wrong := [name for name in chosen if name not in possible]:
        raise UsageError(f"{', '.join(wrong)} needs a suite: harness run asks {', '.join(possible)}")
    return chosen


def virtual_setup(
    device: DeviceProfile,
    oracles: tuple[str, ...],
    library_paths: tuple[str, ...],
    folder: Path,
    environment: Mapping[str, str],
) -> CommandSetup:
    """Return the setup of a command on the virtual GPU; `environment` is that of this process."""
    return CommandSetup(
        plan=watch_plan(device, tuple(name for name in oracles if name != FITS.name), library_paths),
        environment=watched_environment(environment, folder, library_paths),
        checks_builds=FITS.name in oracles,
    )


def on_hardware(
    virtual: CommandSetup, gpu: RealGpu, sanitizing: Sanitizing | None, accepts: Path, folder: Path
) -> CommandSetup:
    """Return the setup of the same command on a hardware GPU, perhaps under a tool of compute-sanitizer."""
    plan = replace(virtual.plan, on_hardware=True, accepts=str(accepts.resolve()))
    environment = {**virtual.environment, **dict(worker_environment(gpu))}
    if sanitizing is None:
        return replace(virtual, plan=plan, environment=environment)
    of_self_test = dict(environment)
    prepare_environment(of_self_test, plan)
    sanitized = under_sanitizer(sanitizing, folder, of_self_test)
    return CommandSetup(
        plan=replace(plan, sanitizer=sanitized.plan),
        environment={**environment, **sanitized.environment},
        before=sanitized.words,
    )


def watch_command(
    command: WatchedCommand,
    setup: CommandSetup,
    folder: Path,
    accepted: Iterable[Suppression],
    limit_s: float | None = None,
) -> tuple[CommandEnd, Seen]:
    """Run a command in the foreground.

    Args:
        command: the command.
        setup: how its processes are started.
        folder: where they write what they see.
        accepted: reports of compute-sanitizer that are no failures.
        limit_s: the time limit.

    Raises:
        UsageError: the command does not exist, or cannot be started.
    """
    (folder / PLAN).write_text(to_json(setup.plan), encoding="utf-8")
    builds = BuildVerdicts()
    if setup.checks_builds:
        with BuildChecks(folder, Path(setup.plan.scratch, BUILDS), setup.plan.device) as checks:
            end = run_command(command.words, setup.environment, setup.before, limit_s)
            builds = checks.verdicts(is_patient=not end.was_interrupted)
    else:
        end = run_command(command.words, setup.environment, setup.before, limit_s)
    failures = (*read_failures(folder), *builds.failures)
    if setup.plan.sanitizer is not None:
        failures = (*failures, *rest_of_reports(setup.plan.sanitizer, accepted, failures, command))
    return end, Seen(checks=read_checks(folder), failures=failures, builds=builds, uncompiled=read_uncompiled(folder))
