"""Modules that are read once: in this process, and on disk for later ones.

To parse a text takes as long as many small launches, and most processes see texts that others have seen.  A file holds
the module with what all launches ask of its text: its reach, and every `module_fact`.  The bodies of functions are
packed apart: a launch in native code never looks at them.  The format is pickle, so the folder must be as trustworthy
as that of machine code, which is the same one.
"""

import hashlib
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from harness import wire
from harness.engines.ttir.block_lines import BlockLines
from harness.engines.ttir.ir import MODULE_FACTS, Function, Module, TtirRegion
from harness.engines.ttir.parser import parse
from harness.engines.ttir.reach import PointerReach, reach_of, remember
from harness.engines.ttir.source_version import source_version
from harness.garbage import collections_deferred

SUFFIX = ".module"


class KeptFunction(Function):
    """A function whose body is unpacked when something looks at it."""

    __slots__ = ("_content", "_packed")

    @classmethod
    def restored(cls, packed: bytes, *fields: Any) -> "KeptFunction":
        """Return a function from its packed body and all other fields, in their order."""
        name, parameters, result_types, *rest = fields
        function = cls(name, parameters, result_types, None, *rest)  # pyright: ignore[reportArgumentType] - unpacked later
        function._packed = packed
        return function

    @property
    def body(self) -> TtirRegion:
        if self._content is None:
            with collections_deferred():
                self._content = pickle.loads(self._packed)  # noqa: S301 - the folder holds machine code too
        return self._content

    @body.setter
    def body(self, content: TtirRegion | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride] - lazy
        self._content = content

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
        fields = (self.name, self.parameters, self.result_types, self.slots, self.location, self.public)
        return KeptFunction.restored, (self._packed, *fields)


@dataclass(frozen=True, slots=True)
class _Kept:
    module: Module
    reach: PointerReach


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
            module = parsed(ttir) if self.folder is None else self._kept(self.folder, ttir)
            self._by_text[ttir] = module, BlockLines(module)
        return self._by_text[ttir]

    @staticmethod
    def _kept(folder: Path, ttir: str) -> Module:
        name = hashlib.sha256(_version() + ttir.encode()).hexdigest()[:24]
        file = folder / f"{name}{SUFFIX}"
        kept = _from_disk(file)
        if kept is None:
            module = parsed(ttir)
            with suppress(OSError):  # such as a full disk: the next process reads the text again
                folder.mkdir(parents=True, exist_ok=True)
                wire.write_bytes([_packed(module)], file)
            return module
        remember(kept.reach)
        return kept.module


def parsed(ttir: str) -> Module:
    """Return the module of a text.  All its objects stay, so a collection while they are made looks at them in vain."""
    with collections_deferred():
        return parse(ttir)


def _from_disk(file: Path) -> _Kept | None:
    try:
        kept = pickle.loads(file.read_bytes())  # noqa: S301 - as above
    except Exception:  # noqa: BLE001 - none, or damaged: that raises any type
        return None
    return kept if isinstance(kept, _Kept) else None


def _packed(module: Module) -> bytes:
    for fact in MODULE_FACTS:
        fact(module)
    functions = {name: _without_body(function) for name, function in module.functions.items()}
    small = Module(functions, module.locations, module.block_count, module.facts)
    reach = reach_of(module.kernel).of(small.kernel)
    return pickle.dumps(_Kept(small, reach), pickle.HIGHEST_PROTOCOL)


def _without_body(function: Function) -> KeptFunction:
    body = pickle.dumps(function.body, pickle.HIGHEST_PROTOCOL)
    fields = (function.name, function.parameters, function.result_types)
    return KeptFunction.restored(body, *fields, function.slots, function.location, function.public)


@cache
def _version() -> bytes:
    """Return a digest of what decides the objects: the source of this room and of all facts, and Python's release."""
    facts = (Path(str(sys.modules[fact.__module__].__file__)) for fact in MODULE_FACTS)
    return f"{sys.version} {source_version((*Path(__file__).parent.glob('*.py'), *facts))} ".encode()
