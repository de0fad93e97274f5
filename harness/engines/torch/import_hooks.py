"""Rules for the import of modules, no matter which code imports them first: changed when they are loaded, or replaced.

This file is light: it imports neither torch nor a library.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

Execute = Callable[[], None]
"""Runs the code of a module."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImportRule(MetaPathFinder):
    """Finds some modules in the place of Python."""

    owner: str
    """An owner has one rule."""
    covers: Callable[[str], bool]
    find: Callable[[str, ModuleSpec | None], ModuleSpec | None]
    """Gets a module's name, and its spec if it is installed.  None leaves the module to Python."""
    file: str = ""
    """The file that asks for the rule."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del target
        return self.find(fullname, PathFinder.find_spec(fullname, path)) if self.covers(fullname) else None


def add_rule(rule: ImportRule, *, after_python: bool = False) -> ImportRule:
    """Follow a rule from now on, unless its owner has one.  Return the owner's rule.

    With `after_python` it finds only modules that nothing else finds.
    """
    for known in sys.meta_path:
        if isinstance(known, ImportRule) and known.owner == rule.owner:
            return known
    sys.meta_path.insert(len(sys.meta_path) if after_python else 0, rule)
    return rule


def on_import(name: str, run: Callable[[ModuleType, Execute], None]) -> None:
    """Let `run` run the code of a module when it is imported, and change what it likes before and after.

    The first call for a name counts.  It has no effect on a module that is imported already.
    """

    def find(_: str, installed: ModuleSpec | None) -> ModuleSpec | None:
        if installed is not None and installed.loader is not None:
            installed.loader = _RunningLoader(installed.loader, run)
        return installed

    add_rule(ImportRule(owner=f"the import of {name}", covers=name.__eq__, find=find))


def change_when_imported(name: str, change: Callable[[ModuleType], None]) -> None:
    """Change a module now if it is imported, otherwise as soon as it is."""

    def run(module: ModuleType, execute: Execute) -> None:
        execute()
        change(module)

    if name in sys.modules:
        change(sys.modules[name])
    else:
        on_import(name, run)


class _RunningLoader(Loader):
    def __init__(self, original: Loader, run: Callable[[ModuleType, Execute], None]) -> None:
        self._original = original
        self._run = run

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._original.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._run(module, lambda: self._original.exec_module(module))
