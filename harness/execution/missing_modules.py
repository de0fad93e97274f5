"""Exceptions that only say that something is not installed, or that this release of the library lacks a module.

Such a case shows nothing about a kernel.
"""

import re
from collections.abc import Iterator
from types import TracebackType

from harness.errors import MissingPart
from harness.suite_files import MODULE_PREFIX

NAME = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")


def missing(error: BaseException) -> str | None:
    """Return what is missing, as a clause such as `einops, which is not installed`; None if nothing is.

    A library that fails to import a module of its own is broken, so nothing is missing then.
    """
    for one in causes(error):
        if isinstance(one, MissingPart):
            return str(one)
        if not isinstance(one, ImportError):
            continue
        importer = _importer(one)
        if importer == "jax_triton":  # its error has no module's name
            return "JAX with support for GPUs, which is not installed"
        if not one.name:
            continue
        if importer.startswith(MODULE_PREFIX):
            found = NAME.match(str(one))
            return f"{f'{found[2]}.{found[1]}' if found else one.name}, which is not in this release or not installed"
        if isinstance(one, ModuleNotFoundError) and _root(one.name) != _root(importer):
            return f"{_root(one.name)}, which is not installed"
    return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception, its causes, and those that it replaces.

    An exception replaces another if the function that caught that raised it.  One that is raised further down, by what
    the function does instead, has another reason.
    """
    current: BaseException | None = error
    while current is not None:
        yield current
        if current.__cause__ is not None:
            current = current.__cause__
        elif current.__context__ is not None and _last_frame(current) is _first_frame(current.__context__):
            current = current.__context__
        else:
            current = None


def _importer(error: BaseException) -> str:
    """Return the name of the module whose import statement failed; empty if it is unknown."""
    named = (str(one.tb_frame.f_globals.get("__name__", "")) for one in _frames(error))
    own = [name for name in named if not name.startswith(("importlib", "_frozen_importlib", "harness."))]
    return own[-1] if own else ""


def _frames(error: BaseException) -> Iterator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _first_frame(error: BaseException) -> object:
    return None if error.__traceback__ is None else error.__traceback__.tb_frame


def _last_frame(error: BaseException) -> object:
    frames = tuple(_frames(error))
    return frames[-1].tb_frame if frames else None


def _root(module: str) -> str:
    return module.partition(".")[0]
