"""How the suites beside this file call Liger's autograd functions, whose parameters differ from release to release."""

import inspect

PLAIN = {"gate_multiplier": 1.0, "down_multiplier": 1.0, "in_place": True}
"""Values of parameters that change nothing, or say what older releases always do; of others, None, False and zero."""


def apply(function, **given):
    """What `function.apply` returns, which takes no keywords; parameters that are not given keep their defaults.

    Raises:
        NotImplementedError: this release has no such parameter, and it is asked for more than nothing.
    """
    known = inspect.signature(function.forward).parameters
    for name in given.keys() - known.keys():
        if given[name] is not None and given[name] != PLAIN.get(name, False):
            raise NotImplementedError(f"{function.__name__} of this release has no {name}")
    names = [name for name in known if name != "ctx"]
    last = max(index for index, name in enumerate(names) if name in given)
    return function.apply(*(given[name] if name in given else known[name].default for name in names[: last + 1]))
