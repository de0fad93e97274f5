"""The functions and files that a check is given, as text or as Python objects."""

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.checks.answer import CodePlace
from harness.errors import UsageError, unknown
from harness.syntax_trees import module_of

MODEL, CANDIDATE, INPUTS, INIT_INPUTS = "Model", "ModelNew", "get_inputs", "get_init_inputs"
"""The names that KernelBench's files have."""

Code = str | Path | Callable[..., Any]
"""`module:function`, `file.py:function`, a file in KernelBench's form, or a function that a module defines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCode:
    """What a check compares."""

    candidate: CodePlace
    reference: CodePlace
    inputs: CodePlace
    init_inputs: CodePlace | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that it names, each once."""
        places = (self.candidate, self.reference, self.inputs)
        return tuple(dict.fromkeys(Path(place.file) for place in places if place.file))


def checked_code(new: Code, reference: Code | None, inputs: Code | None) -> CheckedCode:
    """Return what these arguments name.  Files are parsed, never imported.

    Raises:
        UsageError: a file or a name in it does not exist, or an argument is missing.
    """
    if inputs is None and _is_file(new) and (reference is None or _is_file(reference)):
        return _models(_file(str(new)), _file(str(reference if reference is not None else new)))
    if reference is None or inputs is None:
        raise UsageError(
            "functions need a reference and inputs: harness check NEW REFERENCE --inputs module:function; "
            "without --inputs, name files with Model, ModelNew, get_inputs and get_init_inputs"
        )
    return CheckedCode(candidate=code_place(new), reference=code_place(reference), inputs=code_place(inputs))


def code_place(code: Code) -> CodePlace:
    """Return the place that `module:function` or `file.py:function` names, or where a function is defined.

    Raises:
        UsageError: there is no such file or name, or the function is not at the top of a module.
    """
    if callable(code) and not isinstance(code, str | Path):
        return _place_of(code)
    before, colon, name = str(code).rpartition(":")
    if not colon or not before or not name:
        raise UsageError(f"{code}: write module:function or path/file.py:function")
    if not before.endswith(".py"):
        if "/" in before or not all(part.isidentifier() for part in before.split(".")):
            raise UsageError(f"{code}: {before!r} is neither a module nor a Python file")
        return CodePlace(file="", module=before, name=name)
    path = _file(before)
    known = _names(path)
    if name.partition(".")[0] not in known and "*" not in known:
        raise UsageError(f"{path}: {unknown('function', name, known)}")
    return CodePlace(file=str(path), module="", name=name)


def _is_file(code: Code) -> bool:
    return isinstance(code, str | Path) and str(code).endswith(".py")


def _file(name: str) -> Path:
    path = Path(name).absolute()
    if not path.is_file():
        raise UsageError(f"there is no file {name!r}")
    return path


def _models(new: Path, reference: Path) -> CheckedCode:
    for path, names in ((new, (CANDIDATE,)), (reference, (MODEL, INPUTS, INIT_INPUTS))):
        known = _names(path)
        for name in names:
            if name not in known and "*" not in known:
                raise UsageError(
                    f"{path} has no {name}: a candidate's file has {CANDIDATE}, the reference's {MODEL}, {INPUTS} and "
                    f"{INIT_INPUTS}; functions need --inputs"
                )
    return CheckedCode(
        candidate=CodePlace(file=str(new), module="", name=CANDIDATE),
        reference=CodePlace(file=str(reference), module="", name=MODEL),
        inputs=CodePlace(file=str(reference), module="", name=INPUTS),
        init_inputs=CodePlace(file=str(reference), module="", name=INIT_INPUTS),
    )


def _names(path: Path) -> set[str]:
    """Return the names that a file defines at its top, also in branches; `*` if it imports all of a module.

    Raises:
        UsageError: it is no Python.
    """
    try:
        tree = module_of(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{path} is no Python file: {error}") from None
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update((alias.asname or alias.name).partition(".")[0] for alias in aliases)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case _:
                pass
    return names


def _place_of(function: Callable[..., Any]) -> CodePlace:
    name = getattr(function, "__qualname__", "")
    target = inspect.unwrap(function)
    file = inspect.getsourcefile(target) if inspect.isfunction(target) or inspect.isclass(target) else None
    if not name or "<" in name or file is None or not Path(file).is_file():
        raise UsageError(
            f"{name or function!r} cannot be found by another process: define it at the top of a Python file"
        )
    return CodePlace(file=str(Path(file).absolute()), module="", name=name)
