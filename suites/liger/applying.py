"""Calls Liger's autograd functions, whose parameters differ between releases."""

import inspect

PLAIN = {"gate_multiplier": 1.0, "down_multiplier": 1.0, "in_place": True}
"""Neutral values of parameters, which an older release may lack; for others None, False and zero are neutral."""


def apply(function, **given):
    """Call `function.apply`, which takes no keywords; parameters that are not given keep their defaults.

    Raises:
        NotImplementedError: this release lacks a parameter, and its value is not neutral.
    """
    known = inspect.signature(function.forward).parameters
    for name in given.keys() - known.keys():
        if given[name] is not None and given[name] != PLAIN.get(name, False):
            raise NotImplementedError(f"{function.__name__} of this release has no {name}")
    names = [name for name in known if name != "ctx"]
    last = max(index for index, name in enumerate(names) if name in given)
    return function.apply(*(given[name] if name in given else known[name].default for name in names[: last + 1]))
