"""How a command is started: what its processes read, its environment, and what stands before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.engines.cuda.emulation import worker_environment
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.sanitizers.sanitizer_command import Sanitizing
from harness.errors import UsageError
from harness.model.device import DeviceProfile
from harness.oracles import registry
from harness.oracles.traits import PromiseScope
from harness.watched.attaching import prepare_environment
from harness.watched.build_checks import FITS
from harness.watched.command_process import watch_plan, watched_environment
from harness.watched.sanitized_command import under_sanitizer
from harness.watched.watch_records import WatchPlan


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
        *([PromiseScope.BUILD] if is_virtual else []),
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
