"""The keyword arguments of a suite's function, chosen by the names of its parameters."""

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

from harness.errors import SuiteError


@lru_cache(maxsize=256)
def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    parameters = inspect.signature(function).parameters.values()
    named = tuple(parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD)
    return named, any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def results_asked_for(function: Callable[..., Any], results: Collection[str], known: Collection[str]) -> list[str]:
    """Return the results that a definition takes by name, as `y1`; names of inputs, dims and options go first."""
    return [name for name in _parameters(function)[0] if name in results and name not in known]


def arguments_for(
    function: Callable[..., Any], inputs: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call or reference; a function with `**rest` gets all inputs, dims and options.

    Raises:
        SuiteError: a parameter has the name of no input, dim or option.
    """
    known = {**settings, **inputs}
    names, takes_all = _parameters(function)
    if takes_all:
        return known
    if missing := [name for name in names if name not in known]:
        raise SuiteError(f"{function.__qualname__} asks for {', '.join(missing)}: no input, dim or option of its op")
    return {name: known[name] for name in names}
