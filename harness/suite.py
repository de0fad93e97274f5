"""What a suite file imports: `op`, its inputs, and ranges for the usual sizes; and the loader of suite files.

A suite file imports the library under test inside its ops' functions, never at its top: the parent process reads the
file too, and stays free of Triton and of the library.  Kernels of a suite's own lie in a file beside it (`beside`).
"""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from harness.errors import SuiteError
from harness.model.case import DType
from harness.model.inputs import Draw, Extent, Input, Integer, Integers, Segments, Tensor
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
            SuiteError: no reference was declared, or the declaration contradicts itself.
        """
        if self._reference is None:
            raise SuiteError(f"{suite}: op {self.name!r} has no reference: add one with @{self.name}.reference")
        declared = Op(name=self.name, suite=suite, call=self._call, reference=self._reference, **self._options)
        least = {name: dim.low for name, dim in declared.dims.items()}
        try:
            if missing := sorted({name for given in declared.inputs.values() for name in given.named} - set(least)):
                raise SuiteError(f"{suite}: op {self.name!r} has inputs of undeclared dims: {', '.join(missing)}")
            if strange := sorted(set(declared.apart) - set(least)):
                raise SuiteError(f"{suite}: op {self.name!r} keeps undeclared dims apart: {', '.join(strange)}")
            for given in declared.inputs.values():
                given.extents(least)
        except (SyntaxError, ValueError) as error:
            raise SuiteError(f"{suite}: op {self.name!r} has an extent that is no arithmetic: {error}") from error
        return declared


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
    return "harness_suite_" + "_".join(path.with_suffix("").parts[-3:]).replace("-", "_").replace(".", "_")


def _import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_module_name(path), path)
    if spec is None or spec.loader is None:
        raise SuiteError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a suite is somebody's code: whatever it raises is the suite's fault, named here
        raise SuiteError(f"{path} fails on import: {type(error).__name__}: {error}") from error
    return module
