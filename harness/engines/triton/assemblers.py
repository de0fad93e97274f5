"""The assemblers that Triton ships, by version; nothing of Triton is imported.

Triton ships two releases of ptxas and takes one of them by architecture.  The other one compiles for most
architectures too.
"""

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from harness.engines.triton.triton_releases import RELEASES, release_of

USUAL, BLACKWELL = "ptxas", "ptxas-blackwell"
VERSION = re.compile(r"\bV(\d+\.\d+\.\d+)\b")
LIMIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembler:
    """One ptxas."""

    path: str
    version: str
    """As `ptxas --version` says: `12.8.93`."""

    def __str__(self) -> str:
        return f"ptxas {self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assemblers:
    """The assemblers for one GPU."""

    usual: Assembler | None
    """The one that Triton takes; None if it cannot be found."""
    other: Assembler | None
    """One of another version; None if Triton ships none."""


@cache
def find_assemblers(capability: tuple[int, int]) -> Assemblers:
    """Return the assemblers of the installed Triton for this compute capability."""
    shipped = _shipped()
    first = release_of(_triton_version()).newer_ptxas_from
    taken = BLACKWELL if capability >= first and BLACKWELL in shipped else USUAL
    chosen = os.environ.get(f"TRITON_{taken.upper().replace('-', '_')}_PATH", "")
    usual = (_assembler(chosen) if chosen else None) or shipped.get(taken)
    other = (each for each in shipped.values() if usual is not None and each.version != usual.version)
    return Assemblers(usual=usual, other=next(other, None))


def _triton_version() -> str:
    try:
        return distribution("triton").version
    except PackageNotFoundError:
        return RELEASES[0].version


def _shipped() -> dict[str, Assembler]:
    try:
        files = distribution("triton").files or ()
    except PackageNotFoundError:
        return {}
    paths = {file.name: str(Path(str(file.locate())).resolve()) for file in files if "nvidia" in file.parts}
    usable = {name: _assembler(paths[name]) for name in (USUAL, BLACKWELL) if name in paths}
    return {name: assembler for name, assembler in usable.items() if assembler is not None}


def _assembler(path: str) -> Assembler | None:
    try:
        printed = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=LIMIT_S, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    version = VERSION.search(printed)
    return Assembler(path=path, version=version.group(1)) if version else None
