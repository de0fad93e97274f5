"""Modules that are read once: in this process, and on disk for later ones.

To parse a text takes as long as many small launches, and most processes see texts that others have seen.  A file holds
the module with what all launches ask of its text: its reach and its lines.  The format is pickle, so the folder must be
as trustworthy as that of machine code, which is the same one.
"""

import hashlib
import pickle
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from harness import wire
from harness.engines.ttir.block_lines import BlockLines, Places, places_of_blocks
from harness.engines.ttir.ir import Module
from harness.engines.ttir.parser import parse
from harness.engines.ttir.reach import PointerReach, remember
from harness.garbage import collections_deferred

SUFFIX = ".module"
_DAMAGED = (AttributeError, EOFError, ImportError, IndexError, ValueError, pickle.UnpicklingError)


@dataclass(frozen=True, slots=True)
class _Kept:
    module: Module
    reach: PointerReach
    places: tuple[Places, ...]


@dataclass(slots=True)
class KeptModules:
    """The modules of one process."""

    folder: Path | None = None
    """Keeps them for other processes; None for this one alone."""
    _by_text: dict[str, tuple[Module, BlockLines]] = field(default_factory=dict[str, tuple[Module, BlockLines]])

    def read(self, ttir: str) -> tuple[Module, BlockLines]:
        """Return the module of a text, and its lines.

        Raises:
            CannotExecute: the text cannot be parsed.
        """
        if ttir not in self._by_text:
            file = None if self.folder is None else self._file(self.folder, ttir)
            kept = None if file is None else _from_disk(file)
            if kept is None:
                kept = _read(ttir)
                if file is not None:
                    _to_disk(kept, file)
            remember(kept.reach)
            module, lines = kept.module, BlockLines(kept.module, kept.places)
            self._by_text[ttir] = module, lines
        return self._by_text[ttir]

    @staticmethod
    def _file(folder: Path, ttir: str) -> Path:
        name = hashlib.sha256(_version() + ttir.encode()).hexdigest()[:24]
        return folder / f"{name}{SUFFIX}"


def _from_disk(file: Path) -> _Kept | None:
    try:
        with collections_deferred():
            kept = pickle.loads(file.read_bytes())  # noqa: S301 - the folder holds machine code too
    except (OSError, *_DAMAGED):
        return None
    return kept if isinstance(kept, _Kept) else None


def _read(ttir: str) -> _Kept:
    with collections_deferred():
        module = parse(ttir)
        reach = PointerReach(module.kernel)
        reach.decide()
        return _Kept(module, reach, places_of_blocks(module))


def _to_disk(kept: _Kept, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    wire.write_bytes([pickle.dumps(kept, pickle.HIGHEST_PROTOCOL)], file)


@cache
def _version() -> bytes:
    """Return a digest of what decides the objects: the source of this room, and Python's release."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()
