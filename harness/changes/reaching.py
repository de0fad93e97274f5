"""Which statements of a source tree one statement leads to, by the names that it uses.

A use that names no statement, such as a name of `from x import *`, leads to the whole module.
"""

import builtins
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.changes.module_statements import ModuleSource, ModuleStatement
from harness.changes.name_uses import FileUse, ImportTarget, NameUse, TextUse, Use
from harness.changes.source_tree import SourceTree

FUNCTION = re.compile(r"([A-Za-z_][\w.]*):(\w+)")
"""How a suite names a function of the library."""
BUILTINS = frozenset(dir(builtins))

_Visited = set[tuple[str, str, tuple[str, ...]]]


class Reaching:
    """Follows uses through one source tree, each statement once for all ops."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._next: dict[ModuleStatement, tuple[ModuleStatement, ...]] = {}

    def from_op(self, suite: str, name: str) -> frozenset[ModuleStatement]:
        """Return every statement that an op reaches: of one that no statement binds, all that its suite reaches.

        Returns nothing if there is no such suite.
        """
        module = self._tree.suite(suite)
        if module is None:
            return frozenset()
        is_bound = name in module.bindings
        return self._closure(self._named(module, name, (), set()) if is_bound else self._whole(module, set()))

    def _closure(self, start: Iterable[ModuleStatement]) -> frozenset[ModuleStatement]:
        reached: set[ModuleStatement] = set()
        ahead = [*start]
        while ahead:
            statement = ahead.pop()
            if statement not in reached:
                reached.add(statement)
                ahead.extend(self._successors(statement))
        return frozenset(reached)

    def _successors(self, statement: ModuleStatement) -> tuple[ModuleStatement, ...]:
        if statement not in self._next:
            self._next[statement] = tuple(self._used(statement.module, statement.uses))
        return self._next[statement]

    def _used(self, module: ModuleSource, uses: Iterable[Use]) -> Iterator[ModuleStatement]:
        for use in uses:
            match use:
                case NameUse(target=target) if target is not None:
                    yield from self._imported(target, use.attributes, set())
                case NameUse():
                    yield from self._named(module, use.name, use.attributes, set())
                case FileUse():
                    yield from self._loaded(module, use)
                case TextUse() if module.is_of_project:
                    yield from self._texted(module, use.text)
                case TextUse():
                    pass

    def _named(
        self, module: ModuleSource, name: str, attributes: tuple[str, ...], visited: _Visited
    ) -> Iterator[ModuleStatement]:
        """Yield what a name of a module leads to; nothing if the module has no such name."""
        step = (module.label, name, attributes)
        submodule = self._tree.module(f"{module.name}.{name}") if module.is_package else None
        if name in module.bindings and step not in visited:
            visited.add(step)
            yield from self._bound(module, name, attributes, visited)
        elif submodule is not None:  # also of `from . import name` in the package itself
            yield from self._module(submodule, attributes, visited)
        elif step in visited:  # modules that import each other
            return
        elif name not in BUILTINS and module.is_dynamic:
            yield from self._whole(module, visited)
        elif name not in BUILTINS:
            for star in module.stars:
                if (source := self._tree.module(star.module)) is not None:
                    yield from self._whole(source, visited)

    def _bound(
        self, module: ModuleSource, name: str, attributes: tuple[str, ...], visited: _Visited
    ) -> Iterator[ModuleStatement]:
        yield from self._run_by_import(module)
        yield from module.attached.get(name, ())
        for bound in module.bindings[name]:
            if bound.target is None:
                yield bound.statement
                continue
            followed = tuple(self._imported(bound.target, attributes, visited))
            yield from followed
            if not followed or len(bound.statement.nodes) > 1:
                yield bound.statement  # what is imported is foreign, or depends on a condition

    def _imported(
        self, target: ImportTarget, attributes: tuple[str, ...], visited: _Visited
    ) -> Iterator[ModuleStatement]:
        attributes = (target.name, *attributes) if target.name else attributes
        module, name = self._tree.module(target.module), target.module
        while module is None and "." in name:  # the nearest package may put the module there by another name
            name, _, last = name.rpartition(".")
            module, attributes = self._tree.module(name), (last, *attributes)
        if module is not None:
            yield from self._module(module, attributes, visited)

    def _module(
        self, module: ModuleSource, attributes: tuple[str, ...], visited: _Visited
    ) -> Iterator[ModuleStatement]:
        """Yield what attributes of a module lead to; without any, the module itself is handed on, and all counts."""
        if not attributes:
            yield from self._whole(module, visited)
            return
        name, *rest = attributes
        if name in module.bindings or (module.is_package and self._tree.module(f"{module.name}.{name}")):
            yield from self._named(module, name, tuple(rest), visited)
        elif targets := tuple(self._tabled(module, name)):
            for target in targets:
                yield from self._imported(target, tuple(rest), visited)
        else:
            yield from self._whole(module, visited)

    def _tabled(self, module: ModuleSource, name: str) -> Iterator[ImportTarget]:
        """Yield where a table of names leads, of a module that imports on demand: `{"layer_norm": "norm.layernorm"}`.

        Or the table lists the names of each of its modules: `{"norm": ["layer_norm", "rms_norm"]}`.
        """
        for key, texts in module.tables:
            if key == name:
                for text in texts:
                    for found in (f"{module.package}.{text.lstrip('.')}", text):
                        if self._tree.module(found) is not None:
                            last = next((each for each in texts if each.isidentifier() and each != text), "")
                            yield ImportTarget(module=found, name=last)
                            break
            elif name in texts and self._tree.module(f"{module.package}.{key}") is not None:
                yield ImportTarget(module=f"{module.package}.{key}", name=name)

    def _whole(self, module: ModuleSource, visited: _Visited) -> Iterator[ModuleStatement]:
        step = (module.label, "*", ())
        if step in visited:
            return
        visited.add(step)
        yield from self._run_by_import(module)
        for name in module.bindings:
            yield from self._named(module, name, (), visited)
        for star in module.stars:
            if (source := self._tree.module(star.module)) is not None:
                yield from self._whole(source, visited)

    def _run_by_import(self, module: ModuleSource) -> Iterator[ModuleStatement]:
        """Yield what runs at the import of a module, in the packages around it too."""
        yield from module.effects
        parts = module.name.split(".")[:-1]
        for count in range(1, len(parts) + 1):
            if (package := self._tree.module(".".join(parts[:count]))) is not None:
                yield from package.effects

    def _loaded(self, module: ModuleSource, use: FileUse) -> Iterator[ModuleStatement]:
        for file in self._paths(module, use.file):
            if file.is_file():
                yield from self._module(self._tree.file(file), use.attributes, set())

    def _paths(self, module: ModuleSource, file: str) -> Iterator[Path]:
        """Yield the path of a file beside a module; of `=NAME`, each text in the statements that bind the name."""
        folder = self._tree.path_of(module).parent
        if not file.startswith("="):
            yield folder / file
            return
        for bound in module.bindings.get(file[1:], ()):
            yield from (folder / use.text for use in bound.statement.uses if isinstance(use, TextUse))

    def _texted(self, module: ModuleSource, text: str) -> Iterator[ModuleStatement]:
        """Yield what a text in a suite names: a function of the library, or a Python file beside the suite."""
        if named := FUNCTION.fullmatch(text):
            yield from self._imported(ImportTarget(module=named[1], name=named[2]), (), set())
        elif text.endswith(".py") and "\n" not in text and (path := self._tree.path_of(module).parent / text).is_file():
            yield from self._whole(self._tree.file(path), set())
