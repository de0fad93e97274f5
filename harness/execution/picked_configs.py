"""Hands the picked configs of a case to the library: each function that picks is replaced during the case."""

import importlib
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import ModuleType
from typing import Any

from harness.errors import CannotExecute, SuiteError, unknown
from harness.model.case import Case
from harness.model.host_configs import HostConfigs, PickedConfig
from harness.model.op import Op

ORIGINAL = "_harness_original"
"""The attribute of a replacement that holds the library's own function."""


@contextmanager
def picking(op: Op, case: Case) -> Generator[set[str]]:
    """Have the library's functions return what the case picks; yield the set of those that were called.

    Raises:
        CannotExecute: this release of the library lacks a function.
        SuiteError: the op does not declare a function.
    """
    called = set[str]()
    with ExitStack() as replacements:
        for picked in case.picked:
            if picked.function not in op.host_configs:
                raise SuiteError(f"{op.id} has an {unknown('function', picked.function, op.host_configs)}")
            replacements.enter_context(_replaced(op.host_configs[picked.function], picked, called))
        yield called


@contextmanager
def _replaced(declared: HostConfigs, picked: PickedConfig, called: set[str]) -> Generator[None]:
    original = library_function(picked.function)

    @wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        called.add(picked.function)
        if declared.answer is None:
            return declared.returned(picked)
        return declared.answer(picked.value, *args, **kwargs)

    setattr(function, ORIGINAL, original)
    places = [vars(module) for module in holders(picked.function)]
    for place in places:
        place[picked.function_name] = function
    try:
        yield
    finally:
        for place in places:
            if place[picked.function_name] is function:  # another thread may have replaced it since
                place[picked.function_name] = original


def library_function(name: str) -> Callable[..., Any]:
    """Return the library's own function of this name, as it is without a case.

    Raises:
        CannotExecute: this release of the library lacks it.
    """
    module, _, attribute = name.partition(":")
    function = getattr(importlib.import_module(module), attribute, None)
    if not callable(function):
        raise CannotExecute(f"{name}, which this release of the library lacks,")
    return getattr(function, ORIGINAL, function)


def holders(name: str) -> Iterator[ModuleType]:
    """Yield the modules in which the function stands under its name: its own, and those that import it by name."""
    original, attribute = library_function(name), name.rpartition(":")[2]
    for module in tuple(sys.modules.values()):
        held = getattr(module, "__dict__", {}).get(attribute)
        if held is not None and getattr(held, ORIGINAL, held) is original:
            yield module
