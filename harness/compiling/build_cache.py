"""What is kept of compiled builds: the resources of a search's builds, and all that a matrix compiles and collects.

Files are named by a digest of what decides their content.  Each is written whole or not at all, so what was killed goes
on where it was.  A file that cannot be read counts as missing.
"""

import gzip
import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from harness import wire
from harness.engines.triton.builds import RESOURCES_SUFFIX
from harness.model.kernel_build import BuildFacts, CollectedCase, CompileTarget
from harness.model.kernel_resources import Resources

T = TypeVar("T")
ORDERS_VARIABLE = "HARNESS_MATRIX"
FORMAT = 2
"""Raised when the facts of a build, or what is collected of a case, change."""
FOLDER = f"matrix-{FORMAT}"
"""The folder's name inside the harness's cache."""
RESOURCES_FORMAT = 2
"""Format 1 kept failures of the machine, too."""


@dataclass(frozen=True, slots=True)
class BuildCache:
    """The cache in one folder.  Several processes may use it at once."""

    folder: Path

    def facts(self, key: str) -> BuildFacts | None:
        return wire.read_kept(self._place("builds", key, ".json"), BuildFacts)

    def keep_facts(self, key: str, facts: BuildFacts) -> None:
        _write(self._place("builds", key, ".json"), wire.to_json(facts).encode())

    def ttir(self, digest: str) -> str:
        """Return a text that was kept.

        Raises:
            OSError: it was not.
        """
        return gzip.decompress(self._place("ttir", digest, ".gz").read_bytes()).decode()

    def keep_ttir(self, text: str) -> str:
        """Keep a text and return its digest."""
        digest = hashlib.sha256(text.encode()).hexdigest()[:20]
        path = self._place("ttir", digest, ".gz")
        if not path.exists():
            _write(path, gzip.compress(text.encode(), compresslevel=6, mtime=0))
        return digest

    def has_ttir(self, digest: str) -> bool:
        return self._place("ttir", digest, ".gz").exists()

    def collection(self, key: str) -> "Collection":
        """Return what was collected under a digest of everything that decides it."""
        return Collection(self._place("cases", key, ""))

    def _place(self, kind: str, name: str, suffix: str) -> Path:
        return self.folder / kind / name[:2] / f"{name}{suffix}"


@dataclass(frozen=True, slots=True)
class Collection:
    """The collected cases of one suite on one device."""

    folder: Path

    def case(self, digest: str) -> CollectedCase | None:
        return wire.read_kept(self.folder / f"{digest}.json", CollectedCase)

    def keep(self, digest: str, case: CollectedCase) -> None:
        _write(self.folder / f"{digest}.json", wire.to_json(case).encode())

    def cases(self) -> tuple[CollectedCase, ...]:
        """Return all cases so far."""
        cases = (wire.read_kept(path, CollectedCase) for path in sorted(self.folder.glob("*.json")))
        return tuple(case for case in cases if case is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionOrders:
    """What the parent tells the workers that collect on one device, as JSON in a variable."""

    cache: str
    collections: Mapping[str, str]
    """Keys of collections by suite."""
    target: CompileTarget
    specialisations: int
    """The most for each kernel of a suite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeptResources:
    """The content of a resources file."""

    format: int
    resources: Resources


@dataclass(frozen=True, slots=True)
class ResourcesFolder:
    """The resources in the folder where engines leave builds, by the digest of the build."""

    folder: Path

    def remove_empty(self) -> None:
        """Remove files that a power cut has emptied, so that engines leave their builds again."""
        for path in self.folder.glob(f"*{RESOURCES_SUFFIX}"):
            if not path.stat().st_size:
                path.unlink(missing_ok=True)

    def find(self, build: str) -> Resources | None:
        """Return the resources.  A file that cannot be read is removed, so that engines leave the build again."""
        path = self._place(build)
        if not path.exists():
            return None
        kept = wire.read_kept(path, _KeptResources)
        if kept is not None and kept.format == RESOURCES_FORMAT:
            return kept.resources
        path.unlink(missing_ok=True)
        return None

    def keep(self, build: str, resources: Resources) -> None:
        """Keep the resources.  On a full disk, the next search compiles the build again."""
        with suppress(OSError):
            _write(
                self._place(build), wire.to_json(_KeptResources(format=RESOURCES_FORMAT, resources=resources)).encode()
            )

    def _place(self, build: str) -> Path:
        return self.folder / f"{build}{RESOURCES_SUFFIX}"


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # or a power cut could leave an empty file of that name
        draft.replace(path)
    except OSError as error:  # a write to a full disk names no file, and the cache may be on another one
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
