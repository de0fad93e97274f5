"""What an op reaches as a digest, and what two source trees differ in for each op.

An op reaches its function, reference and declarations in the suite, what these import of the library, and so on:
functions, classes, constants, decorators with their autotune configs, device functions.  Packages outside the
libraries and the project do not count, and neither do comments, docstrings and layout.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.changes.module_statements import ModuleSource, ModuleStatement
from harness.changes.reaching import Reaching
from harness.changes.source_tree import SourceTree
from harness.model.op import Op

DIGEST_DIGITS = 16
DATA = frozenset({".json", ".toml", ".yaml", ".yml", ".csv"})
"""The suffixes of files that a library's module may read: those in its folder, and in folders without modules below."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SourcePlace:
    """A named piece of code, or a data file."""

    file: str
    """The path below its root: `fla/modules/layernorm.py`."""
    name: str = ""
    """Of a function, class or constant; empty for other code of the file, and for a data file."""

    def __str__(self) -> str:
        return f"{self.file}: {self.name}" if self.name else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedCode:
    """Everything that one op reaches."""

    places: Mapping[SourcePlace, str]
    """The digest of each place."""
    kernels: frozenset[SourcePlace]
    """The places that Triton compiles."""
    own: frozenset[SourcePlace]
    """The places outside libraries: the suite, and what it loads."""
    suite: str
    """The suite's file as its places have it; empty if there is none."""
    is_declared: bool
    """True if a statement of the suite binds the op's name."""

    @property
    def digest(self) -> str:
        lines = sorted(f"{place.file}\0{place.name}\0{digest}\n" for place, digest in self.places.items())
        return hashlib.sha256("".join(lines).encode()).hexdigest()[:DIGEST_DIGITS]


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedOp:
    """An op for which two source trees differ."""

    op: Op
    places: tuple[SourcePlace, ...]
    """What differs: changed, new or gone.  Empty if the op is new."""
    kernels: tuple[str, ...] = ()
    """The names of the kernels and device functions among them."""
    changes_own_kernels: bool = False
    """True if code of the project outside libraries differs that declares no op, such as a kernel beside a suite."""
    is_new: bool = False
    """True if the earlier tree has no such op."""


def digests(ops: Iterable[Op], roots: Sequence[Path], project: Path) -> Mapping[str, str]:
    """Return the digest of each op by its id.

    Args:
        ops: of suites of the project, or of those that come with the harness.
        roots: the folders of the libraries under test, in the order in which imports find them.
        project: the folder to which names of suites refer.
    """
    return {op: code.digest for op, code in reached_code(ops, SourceTree(roots, project)).items()}


def reached_code(ops: Iterable[Op], tree: SourceTree) -> Mapping[str, ReachedCode]:
    """Return what each op reaches, by its id."""
    reaching = Reaching(tree)
    data: dict[ModuleSource, Mapping[SourcePlace, str]] = {}
    return {op.id: _code_of(op, reaching.from_op(op.suite, op.name), tree, data) for op in ops}


def touched(ops: Iterable[Op], before: SourceTree, after: SourceTree) -> tuple[TouchedOp, ...]:
    """Return the ops for which the trees differ, each with what differs."""
    ops = tuple(ops)
    return touched_by(ops, reached_code(ops, before), reached_code(ops, after))


def touched_by(
    ops: Iterable[Op], earlier: Mapping[str, ReachedCode], later: Mapping[str, ReachedCode]
) -> tuple[TouchedOp, ...]:
    """As `touched`, of what the ops reach in each tree."""
    return tuple(filter(None, (_touched(op, earlier[op.id], later[op.id]) for op in ops)))


def changed_places(labels: Iterable[str], before: SourceTree, after: SourceTree) -> frozenset[SourcePlace]:
    """Return the places that differ in modules of libraries, named by their paths below the libraries' folders."""
    places: set[SourcePlace] = set()
    for label in labels:
        parts = Path(label).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        places.update(_differing(*(_places(tree.module(name)) for tree in (before, after))))
    return frozenset(places)


def _touched(op: Op, earlier: ReachedCode, later: ReachedCode) -> TouchedOp | None:
    if earlier.digest == later.digest:
        return None
    if later.is_declared and not earlier.is_declared:
        has_own = bool(later.kernels & later.own)
        return TouchedOp(
            op=op, places=(), is_new=True, kernels=_kernel_names(later.kernels), changes_own_kernels=has_own
        )
    places = _differing(earlier.places, later.places)
    kernels = (earlier.kernels | later.kernels) & places
    suites = {earlier.suite, later.suite}
    own = (place for place in places & (earlier.own | later.own) if place in kernels or place.file not in suites)
    return TouchedOp(op=op, places=tuple(sorted(places)), kernels=_kernel_names(kernels), changes_own_kernels=any(own))


def _kernel_names(places: Iterable[SourcePlace]) -> tuple[str, ...]:
    return tuple(sorted({place.name for place in places}))


def _code_of(
    op: Op,
    reached: Iterable[ModuleStatement],
    tree: SourceTree,
    known: dict[ModuleSource, Mapping[SourcePlace, str]],
) -> ReachedCode:
    statements = tuple(reached)
    modules = {statement.module for statement in statements if not statement.module.is_of_project}
    for module in modules - known.keys():
        known[module] = dict(_data_beside(module, tree.path_of(module).parent))
    data = {place: digest for module in modules for place, digest in known[module].items()}
    suite = tree.suite(op.suite)
    return ReachedCode(
        places={**_joined(statements), **data},
        kernels=frozenset(_place_of(statement) for statement in statements if statement.is_kernel),
        own=frozenset(_place_of(statement) for statement in statements if statement.module.is_of_project),
        suite=suite.label if suite else "",
        is_declared=suite is not None and op.name in suite.bindings,
    )


def _differing(first: Mapping[SourcePlace, str], second: Mapping[SourcePlace, str]) -> frozenset[SourcePlace]:
    return frozenset(place for place in first.keys() | second.keys() if first.get(place) != second.get(place))


def _places(module: ModuleSource | None) -> Mapping[SourcePlace, str]:
    return _joined(module.statements) if module is not None else {}


def _joined(statements: Iterable[ModuleStatement]) -> Mapping[SourcePlace, str]:
    """Return digests by place: several statements may bind one name, under different conditions."""
    grouped: dict[SourcePlace, set[str]] = defaultdict(set)
    for statement in statements:
        grouped[_place_of(statement)].add(statement.digest)
    return {place: "+".join(sorted(parts)) for place, parts in grouped.items()}


def _place_of(statement: ModuleStatement) -> SourcePlace:
    return SourcePlace(file=statement.module.label, name=statement.name)


def _data_beside(module: ModuleSource, folder: Path) -> Iterator[tuple[SourcePlace, str]]:
    label = Path(module.label).parent
    if not label.parts:  # the folder of a whole project
        return
    for file in _data_files(folder):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        yield SourcePlace(file=str(label / file.relative_to(folder))), digest


def _data_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if not path.name.startswith((".", "__")) and not any(path.glob("*.py")):
                yield from _data_files(path)
        elif path.suffix in DATA and path.is_file():
            yield path
