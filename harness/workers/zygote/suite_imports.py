"""The imports that a suite's functions make when they are called, read from bytecode.

A fork server makes them before it forks, so that each worker has the libraries already.
"""

import dis
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any

from harness.suite import compiled
from harness.suite_files import MODULE_PREFIX

Import = tuple[str, tuple[str, ...]]
"""The module, and the names after `from`."""


def imports_of(function: Callable[..., Any]) -> Iterator[Import]:
    """Yield the import statements of the function itself."""
    return _imports(getattr(function, "__code__", None))


def imports_of_helpers(function: Callable[..., Any]) -> Iterator[Import]:
    """Yield the import statements of the suite's functions that this one may call, directly or through others."""
    seen = {function}
    waiting = [function]
    while waiting:
        for helper in _suite_functions_in(waiting.pop()):
            if helper not in seen:
                seen.add(helper)
                waiting.append(helper)
                yield from imports_of(helper)


def _imports(code: CodeType | None) -> Iterator[Import]:
    # The compiler loads the tuple of names just before IMPORT_NAME.
    names: Any = None
    for step in dis.get_instructions(code) if code else ():
        if step.opname == "IMPORT_NAME":
            yield step.argval, names or ()
        names = step.argval if step.opname == "LOAD_CONST" else None
    for inner in _inner(code):
        yield from _imports(inner)


def _suite_functions_in(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Yield the functions that the function names.

    They are its file's globals, attributes of files loaded by `beside`, and what the function closes over.
    """
    if not isinstance(function, FunctionType):
        return
    names = tuple(_names(function.__code__))
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # an empty cell
            if isinstance(helper := cell.cell_contents, FunctionType) and _is_of_suite(helper):
                yield helper
    for name in names:
        match function.__globals__.get(name):
            case FunctionType() as helper if _is_of_suite(helper):
                yield helper
            case ModuleType(__name__=str(module)) as loaded if module.startswith(MODULE_PREFIX):
                attributes = (vars(loaded).get(attribute) for attribute in names)
                yield from (
                    helper for helper in attributes if isinstance(helper, FunctionType) and _is_of_suite(helper)
                )
            case _:
                pass


def _is_of_suite(function: FunctionType) -> bool:
    # `compiled` imports Inductor when its result is called.
    return function is compiled or str(function.__globals__.get("__name__")).startswith(MODULE_PREFIX)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in _inner(code):
        yield from _names(inner)


def _inner(code: CodeType | None) -> Iterator[CodeType]:
    """Yield the code of functions, lambdas and comprehensions inside."""
    return (constant for constant in (code.co_consts if code else ()) if isinstance(constant, CodeType))
