"""Calls of torch's operators as `operators.json` writes them down.

A value that JSON does not have is an object.  A tensor of floating-point numbers has its number, and one of integers
its values.  The others are tuples, slices, ellipses, and numbers that are not finite.
"""

import math
from functools import reduce
from typing import Any

import torch

NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def function_of(path: str) -> Any:
    """Return the function or method of torch by its name: `nn.functional.gelu`.

    Raises:
        NotImplementedError: this release of torch has none of that name.
    """
    parts = path.split(".")
    for root in (torch, torch.Tensor, torch.ops.aten):
        found = reduce(lambda owner, name: getattr(owner, name, None), parts, root)
        if callable(found):
            return found
    raise NotImplementedError(f"torch {torch.__version__} has no {path}")


def call(path: str, sample: dict[str, Any], tensors: list[torch.Tensor], compiling: Any = None) -> Any:
    """Call the operator, as `compiling` returns it if that is given; return its results that are tensors."""
    args = [_decoded(one, tensors) for one in sample["args"]]
    kwargs = {name: _decoded(one, tensors) for name, one in sample["kwargs"].items()}
    operator = function_of(path)

    def apply(*args: Any, **kwargs: Any) -> Any:
        return operator(*args, **kwargs)

    made = (compiling(apply) if compiling else apply)(*args, **kwargs)
    if isinstance(made, torch.Tensor):
        return made
    return tuple(one for one in made if isinstance(one, torch.Tensor))


def views(sample: dict[str, Any], given: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors of a sample, which has fewer axes than declared: leading ones have a length of 1."""
    return [tensor[(0,) * (tensor.dim() - len(shape))] for tensor, shape in zip(given, sample["shapes"], strict=False)]


def _decoded(value: Any, tensors: list[torch.Tensor]) -> Any:
    match value:
        case {"tensor": number}:
            return tensors[number]
        case {"integers": values, "shape": shape, "dtype": dtype}:
            return torch.tensor(values, dtype=getattr(torch, dtype)).reshape(shape)
        case {"tuple": values}:
            return tuple(_decoded(one, tensors) for one in values)
        case {"slice": values}:
            return slice(*values)
        case {"ellipsis": _}:
            return ...
        case {"number": name}:
            return NOT_FINITE[name]
        case list():
            return [_decoded(one, tensors) for one in value]
        case _:
            return value
