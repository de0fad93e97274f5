"""What the environment decides, as one value.

The programs read the environment once, where they start: `harness`, the pytest plugin, and each `python -m` program.
Everything below them takes what it needs from a `Settings`.  Variables that are meant for a child process are not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from harness.errors import UsageError

CACHE_VARIABLE = "HARNESS_CACHE"
RESIDENT_VARIABLE = "HARNESS_RESIDENT_MINUTES"
CI_VARIABLE = "CI"
"""What CI systems set."""
USUAL_RESIDENT_MINUTES, MOST_RESIDENT_MINUTES = 10.0, 1440
LEASES_VARIABLE = "HARNESS_LEASES"
COMPILE_LIMIT_VARIABLE = "HARNESS_COMPILE_LIMIT_S"
COMPILE_LIMIT_S = 60.0
FOLDER_NAME = "kernel-harness"
USUAL_CACHE = Path("~/.cache", FOLDER_NAME).expanduser()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one process; the defaults are those of an empty environment, but for a resident."""

    cache: Path = USUAL_CACHE
    """The folder of installed libraries: `$HARNESS_CACHE`, or `kernel-harness` in the user's cache folder."""
    leases: Path | None = None
    """The folder of GPU leases that `$HARNESS_LEASES` names."""
    runtime: Path | None = None
    """The user's runtime folder, `$XDG_RUNTIME_DIR`, if it exists."""
    toolkits: tuple[Path, ...] = ()
    """The CUDA toolkits that `$CUDA_HOME` and `$CUDA_PATH` name, in this order."""
    resident_minutes: float = 0.0
    """How long a resident zygote lives unused: `$HARNESS_RESIDENT_MINUTES`, or 10, but 0 in CI.  0: there is none.

    Only a command that reads its environment leaves one.
    """
    compile_limit_s: float = COMPILE_LIMIT_S
    """The time for the kernels of a case to compile ahead of a hardware GPU: `$HARNESS_COMPILE_LIMIT_S`.

    Cases that need longer are not judged.
    """
    pytest_workers: int = 1
    """The processes of pytest-xdist that share this machine's cores."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read all settings.  An empty variable counts as unset."""
        own_cache, own_leases = environment.get(CACHE_VARIABLE), environment.get(LEASES_VARIABLE)
        caches = Path(environment.get("XDG_CACHE_HOME") or "~/.cache")
        runtime = environment.get("XDG_RUNTIME_DIR")
        return cls(
            cache=(Path(own_cache) if own_cache else caches / FOLDER_NAME).expanduser(),
            leases=Path(own_leases).expanduser() if own_leases else None,
            runtime=Path(runtime) if runtime and Path(runtime).is_dir() else None,
            toolkits=tuple(Path(home) for name in ("CUDA_HOME", "CUDA_PATH") if (home := environment.get(name))),
            resident_minutes=_resident_minutes(environment),
            compile_limit_s=_compile_limit_s(environment),
            pytest_workers=int(environment.get("PYTEST_XDIST_WORKER_COUNT") or 1),
        )


def _resident_minutes(environment: Mapping[str, str]) -> float:
    if text := environment.get(RESIDENT_VARIABLE):
        try:
            minutes = float(text)
        except ValueError:
            minutes = -1.0
        if not 0 <= minutes <= MOST_RESIDENT_MINUTES:
            limits = f"from 0, for no resident, to {MOST_RESIDENT_MINUTES}"
            raise UsageError(f"{RESIDENT_VARIABLE}={text}: write a number of minutes {limits}")
        return minutes
    return 0.0 if environment.get(CI_VARIABLE) else USUAL_RESIDENT_MINUTES


def _compile_limit_s(environment: Mapping[str, str]) -> float:
    text = environment.get(COMPILE_LIMIT_VARIABLE) or str(COMPILE_LIMIT_S)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise UsageError(f"{COMPILE_LIMIT_VARIABLE}={text}: write a number of seconds above 0")
    return seconds
