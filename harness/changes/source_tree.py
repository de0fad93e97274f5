"""The Python files of one checkout: those of libraries under test, and those of the project with its suites.

A file is read when it is first needed, and kept.  Trees that share what is parsed parse equal files once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.changes.module_statements import ModuleSource, parsed_module
from harness.suite_files import located, portable_name

OURS = "harness"
"""The package that suites import and no change of a library touches."""


@dataclass(frozen=True, slots=True)
class ParsedFiles:
    """Parsed modules by name, label, text, and whether they belong to the project."""

    modules: dict[tuple[str, str, str, bool], ModuleSource] = field(
        default_factory=dict[tuple[str, str, str, bool], ModuleSource]
    )


class SourceTree:
    """Finds and reads modules, by their dotted names or by their paths."""

    def __init__(self, libraries: Sequence[Path], project: Path, parsed: ParsedFiles | None = None) -> None:
        """Look up imports in the folders of libraries first, then in the project."""
        self.libraries = tuple(libraries)
        self.project = project
        self._parsed = parsed or ParsedFiles()
        self._paths: dict[ModuleSource, Path] = {}
        self._named: dict[str, ModuleSource | None] = {}
        self._files: dict[Path, ModuleSource] = {}

    def module(self, name: str) -> ModuleSource | None:
        """Return the module of a dotted name; None if it belongs to neither the libraries nor the project."""
        if name not in self._named:
            self._named[name] = self._found(name)
        return self._named[name]

    def file(self, path: Path, label: str = "") -> ModuleSource:
        """Return the module of a file that is loaded by its path."""
        whole = path.resolve()
        if whole not in self._files:
            self._files[whole] = self._read(whole, "", label or self._label(whole), is_of_project=True)
        return self._files[whole]

    def path_of(self, module: ModuleSource) -> Path:
        """Return the path of a module of this tree; the folder of a package without `__init__.py`."""
        return self._paths[module]

    def suite(self, name: str) -> ModuleSource | None:
        """Return the suite of this name; None if there is none."""
        path = located(name, self.project)
        return self.file(path, portable_name(path)) if path.is_file() else None

    def _label(self, path: Path) -> str:
        project = self.project.resolve()
        return str(path.relative_to(project)) if path.is_relative_to(project) else path.name

    def _found(self, name: str) -> ModuleSource | None:
        parts = name.split(".")
        if parts[0] in {OURS, ""}:
            return None
        for root in dict.fromkeys((*self.libraries, self.project)):
            base = root.joinpath(*parts)
            for path in (base / "__init__.py", base.with_name(f"{base.name}.py")):
                if path.is_file():
                    return self._read_of(root, path, name)
        for root in self.libraries:
            folder = root.joinpath(*parts)
            if folder.is_dir() and any(folder.iterdir()):  # a package without `__init__.py`
                return self._read_of(root, folder, name)
        return None

    def _read_of(self, root: Path, path: Path, name: str) -> ModuleSource:
        return self._read(path, name, str(path.relative_to(root)), is_of_project=root not in self.libraries)

    def _read(self, path: Path, name: str, label: str, *, is_of_project: bool) -> ModuleSource:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        key, known = (name, label, text, is_of_project), self._parsed.modules
        if key not in known:
            known[key] = parsed_module(text, name=name, label=label, is_of_project=is_of_project)
        self._paths[known[key]] = path
        return known[key]
