"""The code of an answer in a worker process: modules by file or name, and the callables in them."""

import hashlib
import importlib
import importlib.util
import os
import sys
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, FileFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from harness.checks.answer import CodePlace

MODULE_PREFIX = "harness_answer_"


class CodeMissing(Exception):
    """A place names no such file, module or function."""


class _SourceOnly(SourceFileLoader):
    """Compiles a file from its text: a compiled one beside it may be forged."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def load(place: CodePlace) -> Any:
    """Return what the place names.

    Raises:
        CodeMissing: its module has no such name.
        Exception: whatever the module raises when it is imported.
    """
    value: Any = _module(place)
    for part in place.name.split("."):
        if not hasattr(value, part):
            raise CodeMissing(f"{place.file or place.module} has no {place.name!r}")
        value = getattr(value, part)
    return value


@cache
def _module(place: CodePlace) -> ModuleType:
    return _of_file(place.file) if place.file else _by_name(place.module)


def _by_name(name: str) -> ModuleType:
    _import_sources_of(str(Path.cwd()))
    return importlib.import_module(name)


@cache
def _of_file(file: str) -> ModuleType:
    """Import the file once, under a name of its own; what lies beside it can be imported."""
    path = Path(file)
    _import_sources_of(str(path.parent))
    name = f"{MODULE_PREFIX}{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceOnly(name, str(path)))
    if spec is None or spec.loader is None:
        raise CodeMissing(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@cache
def _import_sources_of(folder: str) -> None:
    """Make modules of the folder, and of packages in it, importable from their texts alone."""

    def find(path: str) -> FileFinder:
        if (path != folder and not path.startswith(folder + os.sep)) or "site-packages" in path:
            raise ImportError
        return FileFinder(path, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_SourceOnly, SOURCE_SUFFIXES))

    sys.path_hooks.insert(0, find)
    sys.path_importer_cache.clear()
    if folder not in sys.path:
        sys.path.append(folder)


def code_of(function: Any) -> Any:
    """Return the code object of a function, a method or a module's `forward`; None for other callables."""
    if isinstance(function, type):
        function = getattr(function, "forward", None)
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return getattr(function, "__code__", None)
