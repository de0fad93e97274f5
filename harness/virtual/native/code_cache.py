"""Machine code kept on disk, by what it was made from: a kernel is compiled once for all workers and runs."""

import hashlib
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.virtual.native.llvm_jit import Host
from harness.virtual.native.lowering import ReportedLoad, Target

SUFFIX = ".native"


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code and what its caller provides."""

    image: bytes
    arena_bytes: int
    sites: tuple[ReportedLoad, ...]


@cache
def _lowering_version() -> str:
    """Changes with every change of this room: code that another lowering made is never loaded."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def key(build: str, target: Target, host: Host) -> str:
    """Names the code of one build (a digest of its TTIR) for one computer."""
    parts = (build, sorted(target.tracked), target.width, host.cpu, host.features, host.llvm, _lowering_version())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


class Store:
    """A folder of compiled kernels; None keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def find(self, name: str) -> Compiled | None:
        """The code of that name, where it is there."""
        if self._folder is None:
            return None
        try:
            content = (self._folder / f"{name}{SUFFIX}").read_bytes()
        except FileNotFoundError:
            return None
        head, _, image = content.partition(b"\n")
        facts = json.loads(head)
        return Compiled(image, facts["arena_bytes"], tuple(ReportedLoad(*site) for site in facts["sites"]))

    def keep(self, name: str, compiled: Compiled) -> None:
        """Write it, so that another process sees all of it or nothing."""
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        facts = {
            "arena_bytes": compiled.arena_bytes,
            "sites": [(site.operation, site.argument) for site in compiled.sites],
        }
        draft = self._folder / f"{name}.{os.getpid()}"
        draft.write_bytes(json.dumps(facts).encode() + b"\n" + compiled.image)
        draft.rename(self._folder / f"{name}{SUFFIX}")
