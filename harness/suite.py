"""What a suite file imports: `op`, its inputs, and ranges for the usual sizes; and the loader of suite files.

A suite file imports the library under test inside its ops' functions, never at its top: the parent process reads the
file too, and stays free of Triton and of the library.  Kernels of a suite's own lie in a file beside it (`beside`).
"""

import dataclasses
import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from harness.errors import SuiteError, unknown
from harness.model.case import DType
from harness.model.input_spec import Draw, Extent, Input, Integer, Integers, Segments, Tensor, extent_of
from harness.model.op import Dim, Op

__all__ = [
    "DType",
    "Dim",
    "Draw",
    "beside",
    "groups",
    "integers",
    "load_suite",
    "op",
    "segments",
    "tensor",
    "tokens",
    "width",
]

FORBIDDEN_AT_TOP = ("triton", "torch")
ARGUMENTS = frozenset(field.name for field in dataclasses.fields(Op)) - {"name", "suite", "call", "reference"}
"""What `op` takes."""
BY_NAME = ("dims", "inputs", "options")
SEVERAL = ("dtypes", "requires", "refuses", "waives", "apart")

F = TypeVar("F", bound=Callable[..., Any])


def tokens(high: int = 2048, *, grows: bool = True) -> Dim:
    """Rows of the input, usually batch times sequence length: 1 to `high`, and where it `grows`, any in giant cases."""
    return Dim(low=1, high=high, grows=grows)


def width(high: int = 1024) -> Dim:
    """The feature size: 1 to `high`."""
    return Dim(low=1, high=high)


def groups(*choices: int) -> Dim:
    """The number of groups, one of `choices`; the first is the plainest."""
    choices = choices or (1, 2, 4)
    return Dim(low=min(choices), high=max(choices), choices=choices)


def tensor(
    *shape: Extent, optional: bool = False, grad: bool = True, dtype: DType | None = None, draw: Draw = Draw.VALUES
) -> Tensor:
    """A tensor input: `tensor("T", "G*D")`; `optional` where the library accepts None, `draw` where not any number."""
    return Tensor(shape=shape, optional=optional, grad=grad, dtype=dtype, draw=draw)


def integers(
    *shape: Extent,
    low: Extent = 0,
    high: Extent,
    ignore: int | None = None,
    optional: bool = False,
    dtype: Integer = "int64",
) -> Integers:
    """An input of integers, `low <= x < high`: `integers("T", high="V", ignore=-100)` for the labels of a loss."""
    return Integers(shape=shape, low=low, high=high, ignore=ignore, optional=optional, dtype=dtype)


def segments(
    total: Extent,
    count: Extent,
    *,
    may_be_empty: bool = False,
    optional: bool = False,
    dtype: Integer = "int64",
) -> Segments:
    """Cumulative lengths of packed sequences: `segments("T", "N")` for the `cu_seqlens` of N sequences of T tokens."""
    return Segments(total=total, count=count, may_be_empty=may_be_empty, optional=optional, dtype=dtype)


def beside(suite: str, module: str) -> ModuleType:
    """A Python file that lies beside the suite file, loaded once: `beside(__file__, "kernels/sum.py")`.

    To be called inside an op, for kernels of a suite's own: their file imports Triton at its top, a suite's must not.

    Raises:
        SuiteError: there is no such file, or it fails on import.
    """
    path = Path(suite).resolve().parent / module
    name = _module_name(path)
    if name not in sys.modules:
        if not path.is_file():
            raise SuiteError(f"{suite} asks for {module!r}, which does not lie beside it")
        sys.modules[name] = _import_file(path)
    return sys.modules[name]


class Declaration:
    """An op as its suite file declares it; complete once it has a reference."""

    def __init__(self, name: str, call: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self.name = name
        self._call = call
        self._options = options
        self._reference: Callable[..., Any] | None = None

    def reference(self, function: F) -> F:
        """Decorator: the operation's definition in differentiable torch."""
        self._reference = function
        return function

    def complete(self, suite: str) -> Op:
        """The op.

        Raises:
            SuiteError: no reference was declared, or the declaration contradicts itself; so does `where` of the op,
                at whichever sizes it fails.
        """
        place = f"{suite}: op {self.name!r}"
        if self._reference is None:
            raise SuiteError(f"{place} has no reference: add one with @{self.name}.reference")
        if mistake := next(_mistakes(self._options), ""):
            raise SuiteError(f"{place} {mistake}")
        declared = Op(name=self.name, suite=suite, call=self._call, reference=self._reference, **self._options)
        if declared.where is None:
            return declared
        where = _told(declared.where, place)
        plainest = {name: dim.plainest for name, dim in declared.dims.items()}
        where({**declared.plainest_options, **plainest, **dict.fromkeys(declared.optional, True)})
        return dataclasses.replace(declared, where=where)


def _mistakes(given: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the arguments of `op`, to be read after its name; each takes it that there was none before."""
    for name in given:
        if name not in ARGUMENTS:
            yield f"has an {unknown('argument', name, ARGUMENTS)}"
    for name in BY_NAME:
        if not isinstance(given.get(name, {}), Mapping):
            yield f"has {name}={given[name]!r}: write a dict, by name"
    for name in SEVERAL:
        if isinstance(given.get(name), str):
            yield f"has {name}={given[name]!r}: write {name}=({given[name]!r},)"
    for name, values in given.get("options", {}).items():
        if not isinstance(values, tuple | list) or not values:
            yield f"has the option {name}={values!r}: give a tuple of the values worth trying, as (False, True)"
    yield from _mistakes_of_dims(given["dims"])
    yield from _mistakes_of_inputs(given["inputs"], given["dims"])
    if strange := sorted(set(given.get("apart", ())) - set(given["dims"])):
        yield f"keeps undeclared dims apart: {', '.join(strange)}"


def _mistakes_of_dims(dims: Mapping[str, Any]) -> Iterator[str]:
    for name, dim in dims.items():
        if not isinstance(dim, Dim):
            yield f"has the dim {name}={dim!r}: write Dim(low=…, high=…), tokens(…), width(…) or groups(…)"
        elif dim.low > dim.high:
            yield f"has the dim {name} with low={dim.low} above high={dim.high}"
        else:
            for choice in dim.choices:
                if not dim.low <= choice <= dim.high:
                    yield f"has the dim {name} with the choice {choice} outside {dim.low} to {dim.high}"


def _mistakes_of_inputs(inputs: Mapping[str, Any], dims: Mapping[str, Dim]) -> Iterator[str]:
    for name, given in inputs.items():
        match given:
            case Tensor(shape=extents):
                pass
            case Integers():
                extents = (*given.shape, given.low, given.high)
            case Segments():
                extents = (given.total, given.count)
            case _:
                yield f"has the input {name}={given!r}: write tensor(…), integers(…) or segments(…)"
                continue
        for extent in extents:
            for wrong in _mistakes_of_extent(extent, dims):
                yield f"has an extent of {name} {wrong}"


def _mistakes_of_extent(extent: Extent, dims: Mapping[str, Dim]) -> Iterator[str]:
    """At the least sizes and at the most; others are told by the cases that have them."""
    for end in ("low", "high"):
        sizes: dict[str, int] = {name: getattr(dim, end) for name, dim in dims.items()}
        try:
            extent_of(extent, sizes)
        except KeyError as error:
            yield f"with an {unknown('dim', error.args[0], dims)}"
        except ZeroDivisionError:
            yield f"that divides by 0 at {_listed(sizes)}: {extent}"
        except (SyntaxError, TypeError, ValueError):
            yield f"that is no arithmetic with +, -, * and // over dims: {extent!r}"


def _told(where: Callable[[Mapping[str, Any]], bool], place: str) -> Callable[[Mapping[str, Any]], bool]:
    """The same, but what it raises is the suite's fault, and says of which op and at which sizes."""

    def legal(at: Mapping[str, Any]) -> bool:
        try:
            return where(at)
        except Exception as error:  # it is somebody's code, as the whole suite is
            match error:
                case KeyError(args=(str(name),)) if name not in at:
                    wrong = f"asks in `where` for an {unknown('name', name, at)}"
                case _:
                    wrong = f"fails in `where` at {_listed(at)}: {_words(error)}"
            raise SuiteError(f"{place} {wrong}") from error

    return legal


def _listed(sizes: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


def _words(error: BaseException) -> str:
    """As Python says it: `SystemExit` where it has no text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def op(
    *, dims: Mapping[str, Dim], inputs: Mapping[str, Input], **more: Any
) -> Callable[[Callable[..., Any]], Declaration]:
    """Decorator: this function calls the library under test.  `more` are fields of `harness.model.op.Op`."""

    def declare(call: Callable[..., Any]) -> Declaration:
        return Declaration(call.__name__, call, {"dims": dims, "inputs": inputs, **more})

    return declare


def load_suite(file: str) -> tuple[Op, ...]:
    """The ops that a suite file declares, in the file's order; `file` is kept as the suite's name.

    Raises:
        SuiteError: the file does not exist, fails on import, imports Triton or torch at its top, or declares no op.
    """
    path = Path(file)
    if not path.is_file():
        raise SuiteError(
            f"no suite file {file!r}: a suite is a Python file that declares ops, such as suites/fla/norm.py"
        )
    before = {name for name in FORBIDDEN_AT_TOP if name in sys.modules}
    module = _import_file(path)
    for name in FORBIDDEN_AT_TOP:
        if name in sys.modules and name not in before:
            raise SuiteError(f"{file} imports {name} at its top: import it inside the functions that use it")
    declared = [value for value in vars(module).values() if isinstance(value, Declaration)]
    if not declared:
        raise SuiteError(f"{file} declares no op: decorate a function with @harness.suite.op(...)")
    return tuple(one.complete(file) for one in declared)


def _module_name(path: Path) -> str:
    """One for each file: two checkouts of one suite may be compared in one process."""
    whole = path.resolve()
    readable = "_".join(whole.with_suffix("").parts[-3:]).replace("-", "_").replace(".", "_")
    return f"harness_suite_{readable}_{hashlib.sha256(os.fsencode(whole)).hexdigest()[:8]}"


def _import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_module_name(path), path)
    if spec is None or spec.loader is None:
        raise SuiteError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # it is somebody's code, which may skip itself for pytest or exit: its fault, too
        raise SuiteError(f"{path} fails on import: {_words(error)}") from error
    return module
