"""The environment variables of the virtual engine, read once by the engine into one value."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.engines.triton.builds import BUILDS_VARIABLE, KEPT_TTIR_VARIABLE, PASSING_VARIABLE
from harness.engines.virtual.machine import STEP_LIMIT
from harness.engines.virtual.native.native_code import ExecutorMode, executor_mode

STEP_LIMIT_VARIABLE = "HARNESS_STEP_LIMIT"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The choices that the environment makes for one engine."""

    executor: ExecutorMode = ExecutorMode.AUTO
    builds: Path | None = None
    """The folder that collects builds for the background compiler, and native code; None to leave nothing."""
    are_builds_passing: bool = False
    """True: the folder ends with these processes."""
    kept_ttir: Path | None = None
    """The folder that keeps the TTIR of kernels that cannot be executed; None to keep nothing."""
    step_limit: int = STEP_LIMIT


def settings_of(environment: Mapping[str, str]) -> EngineSettings:
    """Return the settings that environment variables ask for.

    Raises:
        UsageError: a variable names an unknown executor.
    """
    builds, kept_ttir = environment.get(BUILDS_VARIABLE), environment.get(KEPT_TTIR_VARIABLE)
    return EngineSettings(
        executor=executor_mode(environment),
        builds=Path(builds) if builds else None,
        are_builds_passing=bool(environment.get(PASSING_VARIABLE)),
        kept_ttir=Path(kept_ttir) if kept_ttir else None,
        step_limit=int(environment.get(STEP_LIMIT_VARIABLE) or STEP_LIMIT),
    )
