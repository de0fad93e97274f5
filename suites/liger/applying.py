"""Calls Liger's autograd functions, whose parameters differ between releases."""

import inspect

NEUTRAL = {
    "casting_mode": "llama",
    "down_multiplier": 1.0,
    "gate_multiplier": 1.0,
    "in_place": True,
    "reduction": "mean",
}
"""What a release without the parameter does; without others it does what None, False and zero ask for."""
OLDER_NAMES = {"linear": "weight"}
PRECISION = frozenset({"accum_dtype"})
"""Parameters that ask for precision.  A release without them is checked with the precision that it has."""


def apply(function, **given):
    """Call `function.apply`, which takes no keywords; parameters that are not given keep their defaults.

    Raises:
        NotImplementedError: this release lacks a parameter, and its value is not neutral.
    """
    declared = inspect.signature(function.forward).parameters
    known = {name if name in given else OLDER_NAMES.get(name, name): declared[name] for name in declared}
    for name in given.keys() - known.keys() - PRECISION:
        if not is_neutral(name, given[name]):
            raise NotImplementedError(f"{function.__name__} of this release has no {name}")
    names = [name for name in known if name != "ctx"]
    last = max(index for index, name in enumerate(names) if name in given)
    return function.apply(*(given[name] if name in given else known[name].default for name in names[: last + 1]))


def is_neutral(name, value):
    """Return True if a release without the parameter does what this value asks for."""
    if value is None:
        return True
    return isinstance(value, bool | int | float | str) and value == NEUTRAL.get(name, False)
