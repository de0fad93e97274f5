"""Triton's front end, asked once for builds that it cannot tell apart.

Triton's cache has an entry for each set of options.  The front end reads few of them: builds of one kernel that differ
in the number of warps alone mostly have one TTIR.  So each run of the front end is kept with the options that it read.
A build whose options have the same values there gets the same TTIR, in this process and in later ones.
"""

import ast
import hashlib
import json
import os
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident, local
from typing import Any

from triton import knobs
from triton.compiler.compiler import ASTSource, get_cache_invalidating_env_vars, make_backend
from triton.runtime.cache import FileCacheManager, get_cache_key
from triton.runtime.jit import JITFunction

from harness.engines.triton.triton_releases import TESTED
from harness.patches import PATCHES

FRONT_END_IGNORES = frozenset({"num_warps", "num_stages", "maxnreg"})
"""Options that the front end does not read, unless a kernel asks for its number of warps (Triton 3.6 to 3.9)."""
FOLDER = "front-end"
"""Beside the entries of Triton's cache."""
ABSENT = "<absent>"
READ_OPTIONS = "options_read_by_front_end"
"""In the metadata of a kernel."""
PARSED = "_parsed_by_harness"


@dataclass(frozen=True, slots=True)
class KnownModule:
    """What the front end makes of a kernel, known from an earlier build."""

    source: str
    """The module before any pass."""
    ttir: str
    read: frozenset[str]
    """The options that the front end read."""

    def __str__(self) -> str:
        return self.source


class ReadOptions:
    """The options of a build, which note what the front end reads of them."""

    def __init__(self, options: object) -> None:
        self._options = options
        self.read: dict[str, str] = {}
        """By name, the text of the value."""

    def __getattr__(self, name: str) -> Any:
        try:
            value = getattr(self._options, name)
        except AttributeError:
            self.read[name] = ABSENT
            raise
        self.read[name] = repr(value)
        return value


class _NoOptions:
    """Options of which the key of Triton's cache has nothing."""

    def hash(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class _FrontEndRun:
    """A run of the front end whose TTIR is still to come."""

    entries: Path
    source: str
    read: Mapping[str, str]


class _Threads(local):
    under_way: _FrontEndRun | None = None


_threads = _Threads()


def share_front_end_runs(ends_at_ttir: Callable[[], bool]) -> None:
    """Run the front end once for builds that it cannot tell apart, in this process; keep its results on disk.

    The TTIR of a build goes through `to_ttir`, unless `ends_at_ttir` is False for it.
    """
    if ASTSource.make_ir.__module__ == __name__:
        return
    original = ASTSource.make_ir

    def make_ir(self: Any, target: Any, options: Any, *rest: Any) -> Any:
        _threads.under_way = None
        if not ends_at_ttir():
            return original(self, target, options, *rest)
        entries = _entries_of(self, target)
        if (known := _known(entries, options)) is not None:
            return known
        watched: Any = ReadOptions(options)
        module = original(self, target, watched, *rest)
        _threads.under_way = _FrontEndRun(entries=entries, source=str(module), read=watched.read)
        return module

    parse = JITFunction.parse

    def parse_once(self: Any) -> ast.Module:
        source: str = self._src  # it may change
        parsed: tuple[str, ast.Module] | None = vars(self).get(PARSED)
        if parsed is None or parsed[0] != source:
            parsed = vars(self)[PARSED] = source, parse(self)
        return parsed[1]

    _replace(ASTSource, "make_ir", make_ir, "share a run of the front end between builds that it cannot tell apart")
    _replace(JITFunction, "parse", parse_once, "parse the source of a kernel once for all its builds")
    if knobs.cache.manager_class is None:
        _replace(knobs.cache, "manager_class", _QuickCache, "write a file of the cache without a folder of its own")


def to_ttir(compile_ttir: Any, module: Any, metadata: MutableMapping[str, Any]) -> Any:
    """Run the passes of a backend as far as TTIR, unless the result is known; keep the result of a new module."""
    if isinstance(module, KnownModule):
        metadata[READ_OPTIONS] = sorted(module.read)
        return module.ttir
    run, _threads.under_way = _threads.under_way, None
    ttir = compile_ttir(module, metadata)
    if run is not None:
        metadata[READ_OPTIONS] = sorted(run.read)
        _keep(run, str(ttir))
    return ttir


def read_options(kernel: Any) -> frozenset[str]:
    """Return the options that the front end read for a compiled kernel whose TTIR went through `to_ttir`."""
    return frozenset(getattr(kernel.metadata, READ_OPTIONS, ()))


def _entries_of(source: Any, target: Any) -> Path:
    """Return the folder of all runs for the builds that differ in their options alone."""
    key = get_cache_key(source, make_backend(target), _NoOptions(), env_vars=get_cache_invalidating_env_vars())
    return Path(knobs.cache.dir, FOLDER, _digest(key))


def _known(entries: Path, options: object) -> KnownModule | None:
    """Return the result of a run that read the same values of the same options; None if there is none."""
    try:
        files = sorted(entries.iterdir())
    except FileNotFoundError:
        return None
    for file in files:
        with suppress(AttributeError, LookupError, TypeError, ValueError):  # a damaged file
            entry = json.loads(file.read_text(encoding="utf-8"))
            if all(_value(options, name) == value for name, value in entry["read"].items()):
                return KnownModule(source=entry["source"], ttir=entry["ttir"], read=frozenset(entry["read"]))
    return None


def _keep(run: _FrontEndRun, ttir: str) -> None:
    entry = {"read": run.read, "source": run.source, "ttir": ttir}
    run.entries.mkdir(parents=True, exist_ok=True)
    name = _digest(json.dumps(run.read, sort_keys=True))
    _write(run.entries / f"{name}.json", json.dumps(entry).encode())


def _value(options: object, name: str) -> str:
    return repr(getattr(options, name)) if hasattr(options, name) else ABSENT


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class _QuickCache(FileCacheManager):
    """Triton's cache, whose files are written beside the old ones, without a temporary folder for each."""

    def put(self, data: Any, filename: str, *_: Any, **__: Any) -> str:
        if self.lock_path is None:
            raise RuntimeError("this cache is not written")
        path = Path(self.cache_dir, filename)
        _write(path, data if isinstance(data, bytes) else str(data).encode())
        return str(path)


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{get_ident()}")
    draft.write_bytes(content)
    draft.replace(path)


def _replace(owner: Any, name: str, replacement: object, why: str) -> None:
    PATCHES.replace(owner, name, replacement, why=why, releases=TESTED)
