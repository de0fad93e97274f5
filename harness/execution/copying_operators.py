"""What each of torch's operators does with an element that nothing has written: nothing, a copy, or a computation.

As in MemorySanitizer, a copy is no use.  An operator that computes element by element carries such elements on, as a
copy does: a caller may cut them off afterwards.  Every other operator uses them.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import torch

from harness.engines.torch.torch_seam import schema_of
from harness.execution.exact_operators import ExactRule, kernel_inside, operator_of


class Effect(StrEnum):
    """The effect of an operator on elements that nothing has written."""

    NONE = "none"
    """It makes a view, reads the form of its arguments alone, or follows no rule."""
    INSIDE = "inside"
    """It consists of other operators."""
    COPY = "copy"
    """Results have elements of the arguments, bit for bit."""
    CONVERT = "convert"
    """As a copy; the result may be of another type."""
    ELEMENTWISE = "elementwise"
    """An element of the result follows from the elements at its own index."""
    USE = "use"
    """Results follow from all elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementFlow:
    """An operator, as far as elements flow through it."""

    effect: Effect
    overwritten: frozenset[str] = frozenset()
    """The arguments that are written and not read."""
    deciding: frozenset[str] = frozenset()
    """The arguments of a copy that are indices or masks: their elements are used."""


@cache
def flow_of(func: Any) -> ElementFlow:
    """Return what is known of an operator's overload."""
    base = schema_of(func).name.partition("::")[2]
    rule = operator_of(func).rule
    functional = base[:-1] if base.endswith("_") and not base.endswith("__") else base
    overwritten = frozenset(_overwritten(func, base, functional, rule))
    if rule is ExactRule.INSIDE:
        is_of_torch = func.namespace == "aten" and kernel_inside(func) is not None
        return ElementFlow(effect=Effect.INSIDE if is_of_torch else Effect.NONE)
    if functional in _CONVERSIONS:
        return ElementFlow(effect=Effect.CONVERT, overwritten=overwritten)
    if functional in _COPIES or base.endswith("_copy"):
        return ElementFlow(effect=Effect.COPY, overwritten=overwritten, deciding=_DECIDING)
    if functional in _NO_READS or rule in _NO_RULES or func.namespace != "aten":
        return ElementFlow(effect=Effect.NONE)
    is_elementwise = torch.Tag.pointwise in func.tags
    return ElementFlow(effect=Effect.ELEMENTWISE if is_elementwise else Effect.USE, overwritten=overwritten)


def _overwritten(func: Any, base: str, functional: str, rule: ExactRule) -> list[str]:
    written = [each for each in schema_of(func).arguments if each.alias_info and each.alias_info.is_write]
    is_filled = base in _FILLS or functional in _ADDS_INTO or rule is ExactRule.RANDOM
    return [each.name for each in written if each.kwarg_only or is_filled]


_NO_RULES = frozenset({ExactRule.VIEW, ExactRule.BITS, ExactRule.NEW, ExactRule.LIFTED, ExactRule.RANDOM})
_FILLS = frozenset({"copy_", "fill_", "zero_"})
"""They write all elements of their first argument, and read none."""
_ADDS_INTO = frozenset({"index_add", "scatter_add", "scatter_reduce", "index_reduce"})
"""They add to some elements of their first argument; to which is not followed."""
_DECIDING = frozenset({"mask", "condition", "index", "indices", "repeats"})
_CONVERSIONS = frozenset({"_to_copy", "copy"})
_COPIES = frozenset(
    {
        *("clone", "cat", "stack", "block_diag", "_unsafe_view", "fill", "tril", "triu"),
        *("index", "index_select", "gather", "take", "masked_select", "where", "embedding", "_unsafe_index"),
        *(
            "masked_fill",
            "masked_scatter",
            "index_put",
            "_index_put_impl",
            "index_copy",
            "index_fill",
            "scatter",
            "put",
        ),
        *("constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d"),
        *("repeat", "repeat_interleave", "roll", "flip", "rot90", "pixel_shuffle", "pixel_unshuffle", "im2col"),
        *("slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter"),
        *("slice_backward", "select_backward"),
    }
)
_NO_READS = frozenset(
    {
        *("full_like", "new_full", "randint_like", "resize", "set", "record_stream", "is_pinned", "_pin_memory"),
        *("sym_size", "sym_stride", "sym_numel", "sym_storage_offset", "is_same_size", "_assert_tensor_metadata"),
        *("zero", "fill_diagonal", "_efficientzerotensor"),
    }
)
