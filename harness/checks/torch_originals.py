"""What a candidate may replace in torch, NumPy and the harness, kept so that it is put back before values are judged.

A candidate that replaces `torch.allclose` or `torch.randn` would judge itself.  So the functions and classes of these
modules are remembered before its file is imported, and put back after the import and after every call.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from itertools import chain
from operator import attrgetter, getitem, is_
from types import CellType, FunctionType, ModuleType
from typing import Any, Self

from harness.checks.kept_words import PARTS, KeptWords, can_keep
from harness.engines.torch.torch_seam import PRIVATE_NAMESPACES

NAMESPACES = frozenset(
    {
        "builtins",
        "hashlib",
        "math",
        "random",
        "numpy",
        "numpy.random",
        "numpy.linalg",
        "torch",
        "torch.autograd",
        "torch.fft",
        "torch.functional",
        "torch.linalg",
        "torch.random",
        "torch.special",
        "torch.overrides",
        *PRIVATE_NAMESPACES,
    }
)
ABOVE = (
    "harness.checks",
    "harness.model",
    "harness.execution",
    "harness.suite",
    "harness.wire",
    "harness.workers",
    "torch.nn",
)
"""Modules whose submodules count too: those that make inputs, define, compare and report."""
CONSTANT = (int, float, str, tuple, frozenset)
HEAP_TYPE = 1 << 9
"""The flag of classes made by Python code, which can be changed."""
_MISSING = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Namespace:
    """A module or class with its attributes as they were."""

    name: str
    owner: Any
    kept: Mapping[str, Any]
    size: int
    """The number of all its attributes."""

    @property
    def is_changed(self) -> bool:
        """True if an attribute is another one, or a class has new ones."""
        now = vars(self.owner)
        is_same = all(map(is_, map(now.get, self.kept), self.kept.values()))
        return not is_same or (isinstance(self.owner, type) and len(now) != self.size)


_parts = attrgetter(*PARTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    """A function with its parts as they were."""

    name: str
    function: Any  # a FunctionType; as a field, type checkers take it for a method
    parts: tuple[Any, ...]
    cells: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, function: FunctionType) -> Self:
        return cls(name=name, function=function, parts=_parts(function), cells=_contents(function))

    @property
    def is_changed(self) -> bool:
        now = (*_parts(self.function), *_contents(self.function))
        return not all(map(is_, now, (*self.parts, *self.cells)))

    def restore(self) -> None:
        for part, value in zip(PARTS, self.parts, strict=True):
            setattr(self.function, part, value)
        for cell, value in zip(self.function.__closure__ or (), self.cells, strict=True):
            if value is not _MISSING:
                cell.cell_contents = value


def _contents(function: FunctionType) -> tuple[Any, ...]:
    cells = function.__closure__
    return tuple(map(_content, cells)) if cells else ()


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return _MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """One thing of thousands of owners, compared without a line of Python for each: that would take most of a case."""

    read: Callable[..., Any]
    owners: tuple[Sequence[Any], ...]
    """The arguments of `read`, one sequence for each."""
    kept: Sequence[Any]

    @property
    def is_changed(self) -> bool:
        try:
            return not all(map(is_, map(self.read, *self.owners), self.kept))
        except (KeyError, ValueError):  # an attribute is gone, or a cell is empty
            return True


class Originals:
    """A snapshot; `restore` puts back what differs from it."""

    def __init__(self) -> None:
        self._spaces: list[_Namespace] = []
        self._functions: dict[int, _Function] = {}
        classes: dict[int, type] = {}
        modules: dict[str, Any] = dict(sys.modules)  # a program may put anything there
        for name, module in sorted(modules.items()):
            if isinstance(module, ModuleType) and _counts(name):
                kept = {key: value for key, value in vars(module).items() if _may_be_replaced(value, name)}
                self._keep(name, module, kept)
                classes |= {id(value): value for value in kept.values() if isinstance(value, type)}
        for each in classes.values():
            if (
                each.__flags__ & HEAP_TYPE
                and each.__module__.partition(".")[0] in {"harness", "torch"}
                and not is_dataclass(each)
            ):
                kept = {key: value for key, value in vars(each).items() if hasattr(value, "__get__")}
                self._keep(f"{each.__module__}.{each.__qualname__}", each, kept)
        self._columns = (*self._function_columns(), *self._space_columns())
        self._words = self._noted_words()
        """Words that are the same as long as nothing differs; None if nobody knows where they are."""
        self._empty = [
            cell
            for each in self._functions.values()
            for cell in each.function.__closure__ or ()
            if _content(cell) is _MISSING
        ]

    def _keep(self, name: str, owner: Any, kept: Mapping[str, Any]) -> None:
        self._spaces.append(_Namespace(name=name, owner=owner, kept=kept, size=len(vars(owner))))
        for key, value in kept.items():
            function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            function = function.fget if isinstance(function, property) else function
            if isinstance(function, FunctionType) and _is_of(function, name):
                self._functions.setdefault(id(function), _Function.of(f"{name}.{key}", function))

    def _function_columns(self) -> Iterator[_Column]:
        functions = [each.function for each in self._functions.values()]
        for at, part in enumerate(PARTS):
            kept = [each.parts[at] for each in self._functions.values()]
            yield _Column(read=attrgetter(part), owners=(functions,), kept=kept)
        cells = [
            pair
            for each in self._functions.values()
            for pair in zip(each.function.__closure__ or (), each.cells, strict=True)
            if pair[1] is not _MISSING
        ]
        yield _Column(
            read=attrgetter("cell_contents"), owners=([cell for cell, _ in cells],), kept=[value for _, value in cells]
        )

    def _space_columns(self) -> Iterator[_Column]:
        kept = [(vars(space.owner), *item) for space in self._spaces for item in space.kept.items()]
        owners, names, values = zip(*kept, strict=True)
        yield _Column(read=getitem, owners=(owners, names), kept=values)

    def _noted_words(self) -> KeptWords | None:
        """Return the words of all that is kept; None if some are not where they are expected."""
        words, functions = KeptWords(), [each.function for each in self._functions.values()]
        cells = [cell for function in functions for cell in function.__closure__ or ()]
        are_noted = can_keep() and all(
            chain(
                map(words.note_function, functions),
                map(words.note_cell, cells),
                (
                    words.note_entries(vars(each.owner), each.kept, counts=isinstance(each.owner, type))
                    for each in self._spaces
                ),
            )
        )
        if not are_noted:
            return None
        words.prepare()
        return words

    @property
    def is_changed(self) -> bool:
        """True if anything differs."""
        if self._words is not None and not self._words.is_changed:
            return False
        return (
            any(column.is_changed for column in self._columns)
            or any(_content(cell) is not _MISSING for cell in self._empty)
            or any(isinstance(space.owner, type) and len(vars(space.owner)) != space.size for space in self._spaces)
        )

    def restore(self) -> tuple[str, ...]:
        """Put back what was replaced since; return the names, such as `torch.allclose`."""
        if self._words is not None and not self._words.is_changed:
            return ()
        replaced = self._put_back() if self.is_changed else ()
        self._words = self._noted_words()  # a dictionary may have moved
        return replaced

    def _put_back(self) -> tuple[str, ...]:
        replaced: list[str] = []
        for function in self._functions.values():
            if function.is_changed:
                function.restore()
                replaced.append(function.name)
        for space in self._spaces:
            if not space.is_changed:
                continue
            now = vars(space.owner)
            for key, value in space.kept.items():
                if now.get(key, _MISSING) is not value:
                    setattr(space.owner, key, value)
                    replaced.append(f"{space.name}.{key}")
            if isinstance(space.owner, type):
                for key in tuple(_hiding(space.owner, space.kept)):
                    delattr(space.owner, key)
                    replaced.append(f"{space.name}.{key}")
        return tuple(replaced)


def _hiding(space: type, kept: Mapping[str, Any]) -> Iterator[str]:
    """Yield the new attributes that hide an inherited one: `torch.Tensor.sum` belongs to a class of C."""
    for key, value in vars(space).items():
        if key not in kept and hasattr(value, "__get__") and any(key in vars(base) for base in space.__mro__[1:]):
            yield key


def _is_of(function: FunctionType, name: str) -> bool:
    """Return True for functions of the harness and of the namespace: those of others change by themselves."""
    module = function.__module__ or ""
    return module.startswith("harness.") or module.partition(".")[0] == name.partition(".")[0]


def _counts(module: str) -> bool:
    return module in NAMESPACES or any(module == top or module.startswith(f"{top}.") for top in ABOVE)


def _may_be_replaced(value: Any, module: str) -> bool:
    if isinstance(value, ModuleType):
        return False
    return callable(value) or (module.startswith("harness") and isinstance(value, CONSTANT))
