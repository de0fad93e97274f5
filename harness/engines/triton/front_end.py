"""Triton's front end, asked once for builds that it cannot tell apart.

Triton's cache has an entry for each set of options.  The front end reads few of them: builds of one kernel that differ
in the number of warps alone mostly have one TTIR.  So each run of the front end is kept with the options that it read.
A build whose options have the same values there gets the same TTIR, in this process and in later ones.
"""

import ast
import hashlib
import json
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import local
from typing import Any

from triton import knobs
from triton.compiler.compiler import ASTSource, get_cache_invalidating_env_vars, make_backend
from triton.runtime.cache import FileCacheManager, get_cache_key
from triton.runtime.jit import JITFunction

from harness import wire
from harness.engines.triton.repeated_questions import answer_once
from harness.engines.triton.triton_releases import TESTED
from harness.patches import PATCHES

FRONT_END_IGNORES = frozenset({"num_warps", "num_stages", "maxnreg"})
"""Options that the front end does not read, unless a kernel asks for its number of warps (Triton 3.6 to 3.9)."""
FOLDER = "front-end"
"""Of the kept runs, beside the entries of Triton's cache."""
SUFFIX = ".json"
ABSENT = "<absent>"
READ_OPTIONS = "options_read_by_front_end"
"""In the metadata of a kernel."""
PARSED = "_parsed_by_harness"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontEndRun:
    """What the front end made of a kernel: the module that a later build gets."""

    read: Mapping[str, str]
    """The options that the front end read: by name, the text of the value."""
    source: str
    """The module before any pass."""
    ttir: str = ""

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


class _Threads(local):
    under_way: tuple[Path, FrontEndRun] | None = None
    """A run whose TTIR is still to come, and the folder that keeps it."""


_threads = _Threads()


def share_front_end_runs(ends_at_ttir: Callable[[], bool]) -> None:
    """Run the front end once for builds that it cannot tell apart, in this process; keep its results on disk.

    The TTIR of a build goes through `to_ttir`, unless `ends_at_ttir` is False for it.
    """
    if ASTSource.make_ir.__module__ == __name__:
        return
    answer_once()
    original = ASTSource.make_ir

    def make_ir(self: Any, target: Any, options: Any, *rest: Any) -> Any:
        _threads.under_way = None
        if not ends_at_ttir() or knobs.compilation.use_ir_loc:  # which needs the module, not its text
            return original(self, target, options, *rest)
        entries = _entries_of(self, target)
        if (known := _known(entries, options)) is not None:
            return known
        watched: Any = ReadOptions(options)
        module = original(self, target, watched, *rest)
        _threads.under_way = entries, FrontEndRun(read=watched.read, source=str(module))
        return module

    parse = JITFunction.parse

    def parse_once(self: Any) -> ast.Module:
        source: str = self._src  # it may change
        parsed: tuple[str, ast.Module] | None = vars(self).get(PARSED)
        if parsed is None or parsed[0] != source:
            parsed = vars(self)[PARSED] = source, parse(self)
        return parsed[1]

    why = "share a run of the front end between builds that it cannot tell apart"
    PATCHES.replace(ASTSource, "make_ir", make_ir, why=why, releases=TESTED)
    why = "parse the source of a kernel once for all its builds"
    PATCHES.replace(JITFunction, "parse", parse_once, why=why, releases=TESTED)
    if knobs.cache.manager_class is None:
        why = "write a file of the cache without a folder of its own"
        PATCHES.replace(knobs.cache, "manager_class", _QuickCache, why=why, releases=TESTED)


def to_ttir(compile_ttir: Any, module: Any, metadata: MutableMapping[str, Any]) -> Any:
    """Run the passes of a backend as far as TTIR, unless the result is known; keep the result of a new module."""
    if isinstance(module, FrontEndRun):
        metadata[READ_OPTIONS] = sorted(module.read)
        return module.ttir
    under_way, _threads.under_way = _threads.under_way, None
    compiled = compile_ttir(module, metadata)
    if under_way is None:
        return compiled
    entries, run = under_way
    metadata[READ_OPTIONS] = sorted(run.read)
    ttir = str(compiled)  # once: a module is printed anew for each file
    _keep(entries, replace(run, ttir=ttir))
    return ttir


def read_options(kernel: Any) -> frozenset[str]:
    """Return the options that the front end read for a compiled kernel whose TTIR went through `to_ttir`."""
    return frozenset(getattr(kernel.metadata, READ_OPTIONS, ()))


def _entries_of(source: Any, target: Any) -> Path:
    """Return the folder of all runs for the builds that differ in their options alone."""
    key = get_cache_key(source, make_backend(target), _NoOptions(), env_vars=get_cache_invalidating_env_vars())
    return Path(knobs.cache.dir, FOLDER, _digest(key))


def _known(entries: Path, options: object) -> FrontEndRun | None:
    """Return a run that read the same values of the same options; None if there is none."""
    for file in sorted(entries.glob(f"*{SUFFIX}")):
        run = wire.read_kept(file, FrontEndRun)
        if run is not None and all(_value(options, name) == value for name, value in run.read.items()):
            return run
    return None


def _keep(entries: Path, run: FrontEndRun) -> None:
    entries.mkdir(parents=True, exist_ok=True)
    name = _digest(json.dumps(dict(run.read), sort_keys=True))
    wire.write_bytes([wire.to_json(run).encode()], entries / f"{name}{SUFFIX}")


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
        wire.write_bytes([data if isinstance(data, bytes) else str(data).encode()], path)
        return str(path)
