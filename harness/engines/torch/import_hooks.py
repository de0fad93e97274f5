"""Changes of a module when it is imported, whoever imports it first and when.

This file is light: it imports neither torch nor a library.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

Execute = Callable[[], None]
"""Runs the code of a module."""


def on_import(name: str, run: Callable[[ModuleType, Execute], None]) -> None:
    """Let `run` run the code of a module when it is imported, and change what it likes before and after.

    The first call for a name counts.  It has no effect on a module that is imported already.
    """
    if not any(isinstance(finder, _Finder) and finder.name == name for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(name, run))


class _Finder(MetaPathFinder):
    """Finds one module where Python finds it."""

    def __init__(self, name: str, run: Callable[[ModuleType, Execute], None]) -> None:
        self.name = name
        self._run = run

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _RunningLoader(spec.loader, self._run)
        return spec


class _RunningLoader(Loader):
    def __init__(self, original: Loader, run: Callable[[ModuleType, Execute], None]) -> None:
        self._original = original
        self._run = run

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._original.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._run(module, lambda: self._original.exec_module(module))
