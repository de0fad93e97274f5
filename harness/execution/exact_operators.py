"""How an exact run follows each of torch's operators: the rules by operator, as tables.

`harness.execution.exact_torch` applies them.  An operator without an entry is a function of its arguments' values.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import torch

from harness.engines.torch.torch_seam import composite_keys, cpu_keys, overload_of, schema_of

Decision = Callable[..., Any]
"""Returns, of an operator's arguments, the choice that its result depends on in steps."""


class ExactRule(StrEnum):
    """The rule by which an operator's results get exact values."""

    VIEW = "view"
    """Results lie in the storage of an argument."""
    BITS = "bits"
    """Results read the bits of an argument as another type."""
    NEW = "new"
    """Results are exact as they are: no argument's value matters."""
    LIFTED = "lifted"
    """The argument was made outside torch's dispatcher, and is exact as it is."""
    RANDOM = "random"
    SELECTION = "selection"
    """Results are elements of the first argument, and their indices."""
    UNKNOWN = "unknown"
    """Results depend on more than the arguments' values."""
    INSIDE = "inside"
    """An operator of a library, or one that consists of others: those that it calls are followed."""
    VALUES = "values"
    """Results are functions of the arguments' values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactOperator:
    """What an exact run knows of an operator before it is called."""

    name: str
    rule: ExactRule
    written: tuple[tuple[int, str], ...]
    """The arguments that the operator writes, by position and name."""
    decision: Decision | None = None
    absorbs_nan: bool = False
    """Results may be numbers where an argument is NaN."""
    has_loose_integers: bool = False
    """Results of integers are uninitialised in part."""


@cache
def operator_of(func: Any) -> ExactOperator:
    """Return the rule of an operator's overload."""
    schema = schema_of(func)
    base = schema.name.partition("::")[2]
    functional = base[:-1] if base.endswith("_") and not base.endswith("__") else base
    written = tuple(
        (at, argument.name)
        for at, argument in enumerate(schema.arguments)
        if argument.alias_info and argument.alias_info.is_write
    )
    written += tuple(
        (at, argument.name) for at, argument in enumerate(schema.arguments) if argument.name in _HIDDEN.get(base, ())
    )
    return ExactOperator(
        name=schema.name.replace("::", "."),
        rule=_rule(func, base, written=bool(written)),
        written=written,
        decision=_decision(functional, overload_of(func)),
        absorbs_nan=functional in _ABSORBS_NAN,
        has_loose_integers=functional.startswith("_embedding_bag"),
    )


def argument(func: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return an argument of a call by its name; None if the operator has none of that name."""
    for at, declared in enumerate(schema_of(func).arguments):
        if declared.name == name:
            return args[at] if at < len(args) else kwargs.get(name, declared.default_value)
    return None


def _rule(func: Any, base: str, *, written: bool) -> ExactRule:
    returns = schema_of(func).returns
    if kernel_inside(func) is not None:
        return ExactRule.INSIDE
    if base == "view":
        return ExactRule.BITS if overload_of(func) == "dtype" else ExactRule.VIEW
    if base in _RULES:
        return _RULES[base]
    if torch.Tag.nondeterministic_seeded in func.tags:
        return ExactRule.RANDOM
    aliases = bool(returns) and all(result.alias_info is not None for result in returns)
    return ExactRule.VIEW if aliases and not written else ExactRule.VALUES


@cache
def kernel_inside(func: Any) -> Any:
    """Return the keys of the kernel that calls other operators; None for one of torch that computes by itself.

    Without autograd, torch shows an operator that consists of others as a whole.
    """
    return composite_keys(func) if func.namespace in _TORCH else cpu_keys()


def _decision(functional: str, overload: str) -> Decision | None:
    if functional == "div" and not overload.endswith("_mode"):
        return None
    return _DECISIONS.get(functional)


def _same(name: str) -> Decision:
    return getattr(torch.ops.aten, name)


def _exceeds(value: Any, bound: Any, *_: Any) -> Any:
    return value > bound


def _exceeds_in_size(value: Any, bound: Any = 0.5, *_: Any) -> Any:
    return value.abs() > bound


_TORCH = frozenset({"aten", "prim", "prims", "quantized", "mkldnn", "mkl", "onednn", "profiler", "inductor"})

_HIDDEN: Mapping[str, tuple[str, ...]] = {"native_batch_norm": ("running_mean", "running_var")}
"""Arguments that are written although the schema does not declare it."""

_RULES: Mapping[str, ExactRule] = {
    **dict.fromkeys(
        (
            "_unsafe_view",
            *("squeeze_", "unsqueeze_", "transpose_", "t_", "swapaxes_", "swapdims_", "as_strided_", "detach_", "set_"),
        ),
        ExactRule.VIEW,
    ),
    **dict.fromkeys(("as_strided_copy", "as_strided_scatter", "nextafter"), ExactRule.UNKNOWN),
    "lift_fresh": ExactRule.LIFTED,
    **dict.fromkeys(
        (
            *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_efficientzerotensor"),
            *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "eye"),
            *("rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm"),
        ),
        ExactRule.NEW,
    ),
    **dict.fromkeys(
        ("max", "min", "sort", "topk", "kthvalue", "mode", "median", "nanmedian", "cummax", "cummin"),
        ExactRule.SELECTION,
    ),
    **dict.fromkeys(
        (
            *("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices"),
            *("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"),
        ),
        ExactRule.SELECTION,
    ),
}

_DECISIONS: Mapping[str, Decision] = {
    **{
        name: _same(name)
        for name in ("floor", "ceil", "trunc", "round", "sign", "heaviside", "floor_divide", "div", "histc")
    },
    "sgn": lambda value: value != 0 if value.is_complex() else value.sgn(),
    "frac": torch.ops.aten.trunc,
    "fmod": lambda value, by, *_: torch.trunc(value / by),
    "remainder": lambda value, by, *_: torch.floor(value / by),
    "threshold": _exceeds,
    "hardshrink": _exceeds_in_size,
    "threshold_backward": lambda _, value, bound: value > bound,
    "leaky_relu_backward": lambda _, value, *__: value > 0,
    "_prelu_kernel_backward": lambda _, value, *__: value > 0,
    "hardtanh_backward": lambda _, value, least, most: (value > least) & (value < most),
    "hardsigmoid_backward": lambda _, value: value.abs() < 3,
    "hardshrink_backward": lambda _, value, bound: value.abs() > bound,
    "softshrink_backward": lambda _, value, bound: value.abs() > bound,
}
"""The choice inside operators whose floating-point result jumps."""

_ABSORBS_NAN = frozenset({"nan_to_num", "fmax", "fmin", "nansum", "nanmedian"})
