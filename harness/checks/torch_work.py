"""The arithmetic that torch's operators do: in a candidate, as a share of what the reference does.

An operation counts once for each element that it reads or makes, whichever are more.  Products count multiplications
and additions, and operators that hold several steps count each.  Operators that move elements count nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from harness.engines.torch.torch_seam import OperatorMode, schema_of, tree_leaves

MOVES = frozenset(
    {
        *(
            "clone",
            "copy_",
            "copy",
            "_to_copy",
            "lift_fresh",
            "cat",
            "stack",
            "split_copy",
            "unbind_copy",
            "constant_pad_nd",
        ),
        *("repeat", "flip", "roll", "gather", "index", "index_select", "take", "embedding", "tril", "triu"),
        *("slice_scatter", "select_scatter", "index_put_", "_index_put_impl_", "scatter", "scatter_", "where"),
        *("masked_fill", "masked_fill_", "masked_select", "_local_scalar_dense", "equal", "set_", "resize_", "item"),
        *("fill_", "fill", "zero_", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "scalar_tensor"),
        *(
            "new_zeros",
            "new_ones",
            "new_full",
            "arange",
            "eye",
            "linspace",
            "_unsafe_view",
            "detach",
            "alias",
            "unfold",
        ),
        *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted", "im2col"),
        *("rand", "randn", "rand_like", "randn_like", "uniform_", "normal_", "bernoulli_", "randint", "randperm"),
        *(
            "view",
            "_reshape_alias",
            "_reshape_copy",
            "reshape",
            "is_nonzero",
            "record_stream",
            "lift",
            "lift_fresh_copy",
        ),
    }
)
"""Operators that compute no number from others."""
STEPS: Mapping[str, int] = {
    "_softmax": 5,
    "_log_softmax": 5,
    "logsumexp": 4,
    "native_layer_norm": 8,
    "native_group_norm": 8,
    "native_batch_norm": 8,
    "_native_batch_norm_legit": 8,
    "_native_batch_norm_legit_no_training": 6,
    "gelu": 6,
    "silu": 4,
    "sigmoid": 3,
    "var": 4,
    "var_mean": 4,
    "std": 4,
    "linalg_vector_norm": 3,
}
"""Steps for each element of operators that hold several."""
MOST_AXES = 16
ATTENTION = "_scaled_dot_product"


def arithmetic_of(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], returned: Any) -> float:
    """Return the operations of one call of an operator; 0 if it makes no new number."""
    name = name_of(func)
    if name in MOVES or schema_of(func).name.endswith("_copy") or _is_view(func):
        return 0.0
    tensors = list(_tensors((args, kwargs)))
    if (count := flop_registry.get(func.overloadpacket)) is not None:
        return float(count(*args, **kwargs, out_val=returned))
    elements = max((each.numel() for each in (*tensors, *_tensors(returned))), default=0)
    match name, tensors:
        case (("mv" | "addmv" | "dot" | "vdot"), _):
            return 2.0 * elements
        case attention, [q, k, v, *_] if attention.startswith(ATTENTION):
            return 2.0 * q.numel() * k.shape[-2] + 2.0 * prod(q.shape[:-1]) * v.shape[-2] * v.shape[-1]
        case _:
            return float(elements * STEPS.get(name, 1))


def name_of(func: Any) -> str:
    """Return the operator's name, without its namespace and overload: `mm`."""
    return str(func.overloadpacket.__name__)


class TorchWork(OperatorMode):
    """Counts while it is active, and notes which operations repeat an operand."""

    def __init__(self) -> None:
        super().__init__()
        self.by_operator = Counter[str]()
        self.repeats: list[int] = []
        """For each operation on elements of several tensors, a bit for each axis along which one is repeated."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operation, and count it."""
        returned = func(*args, **(kwargs or {}))
        if work := arithmetic_of(func, args, kwargs or {}, returned):
            self.by_operator[name_of(func)] += round(work)
        if torch.Tag.pointwise in func.tags and isinstance(returned, torch.Tensor):
            shapes = [tensor.shape for tensor in _tensors((args, kwargs)) if tensor.dim()]
            if len(shapes) > 1:
                self.repeats.append(_repeated(shapes, returned.shape))
        return returned


def _repeated(shapes: Iterable[torch.Size], shape: torch.Size) -> int:
    bits = 0
    for number, own in enumerate(shapes):
        for axis in range(1, len(shape) + 1):
            if shape[-axis] > 1 and (axis > len(own) or own[-axis] == 1):
                bits |= 1 << (number * MOST_AXES + axis)
    return bits


def _is_view(func: Any) -> bool:
    return bool(getattr(func, "is_view", False))


def _tensors(values: Any) -> Iterable[torch.Tensor]:
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor))
