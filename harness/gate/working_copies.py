"""The two working copies that a gate compares: the working tree, and the base in a folder of its own.

A library inside the repository is taken from each.  Any other is the same for both.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from harness import libraries
from harness.changes.op_digests import DATA, SourcePlace, TouchedOp, changed_places, reached_code, touched_by
from harness.changes.source_tree import ParsedFiles, SourceTree
from harness.errors import LibraryError, UsageError
from harness.libraries import importable_root, portable
from harness.model.op import Op
from harness.project_settings import FILE, read_project_settings

COMPILED = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hpp", ".pyx"})
"""Suffixes of sources that a build compiles: nobody can say which op reaches them."""
CODE = frozenset({".py", *DATA, *COMPILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingCopy:
    """One state of a repository, with its project and its libraries under test."""

    root: Path
    """The top of the repository."""
    project: Path
    """The folder to which names of suites refer."""
    libraries: tuple[str, ...]
    """As `--with` takes them."""

    def tree(self, cache: Path, parsed: ParsedFiles) -> SourceTree:
        """Return its source files; a library that has to be built is installed first."""
        return SourceTree([root for spec in self.libraries for root in self._roots(spec, cache)], self.project, parsed)

    def holds(self, spec: str) -> bool:
        """Return True if a library is in the repository."""
        return Path(spec).resolve().is_relative_to(self.root.resolve())

    def _roots(self, spec: str, cache: Path) -> Iterator[Path]:
        """Yield the folder of a library of the repository, if there is one that can be imported."""
        if not self.holds(spec) or not Path(spec).is_dir():
            return
        if root := importable_root(Path(spec)):
            yield root
            return
        try:
            yield from map(Path, libraries.resolve([spec], cache=cache))
        except (UsageError, LibraryError):
            return  # then everything of it differs, and its ops cannot run


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCode:
    """How two working copies differ for the ops of suites."""

    ops: tuple[TouchedOp, ...]
    unreached: tuple[SourcePlace, ...] = ()
    """Code of packages that ops use, which differs and which none of them reaches."""


def working_tree(root: Path, project: Path, named: tuple[str, ...]) -> WorkingCopy:
    """Return that of the working tree; a project with packages is under test itself if nothing is named."""
    if not named and importable_root(project):
        named = (str(project),)
    return WorkingCopy(root=root, project=project, libraries=named)


def base_of(head: WorkingCopy, folder: Path, *, has_options: bool) -> WorkingCopy:
    """Return the base, which is checked out in a folder.

    Args:
        head: the working tree.
        folder: the top of the base.
        has_options: True if the command line names the libraries; those of both are then the same.
    """
    project = folder / _inside(head.project, head.root)
    if not has_options:
        return working_tree(folder, project, read_project_settings(project).libraries)
    moved = (str(folder / _inside(Path(spec), head.root)) if head.holds(spec) else spec for spec in head.libraries)
    return WorkingCopy(root=folder, project=project, libraries=tuple(moved))


def changed_code(
    ops: tuple[Op, ...], files: Collection[str], base: WorkingCopy, head: WorkingCopy, cache: Path
) -> ChangedCode:
    """Return what differs for the ops; `files` are the paths that differ, below the top of the repository."""
    parsed = ParsedFiles()
    before, after = base.tree(cache, parsed), head.tree(cache, parsed)
    reached_now = reached_code(ops, after)
    changes = touched_by(ops, reached_code(ops, before), reached_now)
    if whole := (*_changed_settings(base, head), *_changed_sources(files, head)):
        return ChangedCode(ops=tuple(_with_places(ops, changes, whole)))
    reached = {place for each in changes for place in each.places}
    packages = {Path(place.file).parts[0] for code in reached_now.values() for place in code.places.keys() - code.own}
    labels = [label for label in _labels(files, after, head) if Path(label).parts[0] in packages]
    others = {place for place in changed_places(labels, before, after) - reached if place.name}
    return ChangedCode(ops=changes, unreached=tuple(sorted(others)))


def is_code(file: str, root: Path) -> bool:
    """Return True if a change of the file, or of the submodule, may change what an op does."""
    return Path(file).suffix in CODE or (root / file).is_dir()


def _with_places(
    ops: Iterable[Op], changes: Iterable[TouchedOp], whole: tuple[SourcePlace, ...]
) -> Iterator[TouchedOp]:
    """Yield every op, touched by these places too."""
    known = {touched.op.id: touched for touched in changes}
    for op in ops:
        touched = known.get(op.id) or TouchedOp(op=op, places=())
        yield replace(touched, places=(*whole, *touched.places))


def _changed_settings(base: WorkingCopy, head: WorkingCopy) -> Iterator[SourcePlace]:
    """Yield a place if the working copies name other libraries, so that all ops are touched."""
    before, after = ([portable(spec, each.project) for spec in each.libraries] for each in (base, head))
    if before != after:
        yield SourcePlace(file=FILE, name=f"with = {after}")


def _changed_sources(files: Iterable[str], head: WorkingCopy) -> Iterator[SourcePlace]:
    folders = [Path(spec).resolve() for spec in head.libraries if head.holds(spec)]
    for file in files:
        path = (head.root / file).resolve()
        if path.suffix in COMPILED and any(path.is_relative_to(folder) for folder in folders):
            yield SourcePlace(file=file)


def _labels(files: Iterable[str], tree: SourceTree, head: WorkingCopy) -> Iterator[str]:
    """Yield the paths of Python files below the folders of libraries."""
    for file in files:
        for root in tree.libraries:
            path = head.root.resolve() / file
            if path.suffix == ".py" and path.is_relative_to(root.resolve()):
                yield str(path.relative_to(root.resolve()))


def _inside(path: Path, root: Path) -> str:
    return os.path.relpath(path.resolve(), root.resolve())
