"""Tensors of billions of elements that take no memory: for giant cases, in which addresses are judged, not values.

A large tensor lies in a shared mapping of zeros whose pages exist once they are touched; RLIMIT_DATA does not count it.
Torch's own operations would touch all of it.  While `SparseMemory` is active they are imagined instead: their results
have the right shape, type and strides, and hold zeros.
"""

import mmap
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from harness.errors import CannotExecute

LARGE = 1 << 24
"""Tensors of more elements are sparse in a giant case."""
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
"""`mman.h`: the kernel need not have that much memory.  Python names it from 3.13 on."""
MOVES_STORAGE = frozenset({"set_", "resize_", "resize_as_"})


def sparse(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A contiguous tensor of zeros.

    Raises:
        MemoryError: the machine lacks even the address space, or promises no memory that it lacks.
    """
    size = max(1, prod(shape)) * torch.empty(0, dtype=dtype).element_size()
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | NO_RESERVE)
    except OSError as error:
        raise MemoryError(f"a sparse mapping of {size} bytes: {error}") from error
    return torch.frombuffer(pages, dtype=dtype, count=prod(shape)).view(tuple(shape))


class SparseMemory(TorchDispatchMode):
    """While active, what torch allocates large is sparse, and what it would compute on large tensors is imagined."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Let views and small operations through; otherwise hand back zeros of the right shape.

        Raises:
            CannotExecute: the shape of the result depends on values.
        """
        given = dict(kwargs or {})
        if func.is_view or not (_allocates(func, args, given) or _any_large((args, given))):
            return func(*args, **given)
        if func._schema.is_mutable:  # noqa: SLF001 - what an operation overwrites stands nowhere else
            if func.overloadpacket.__name__ in MOVES_STORAGE:
                raise CannotExecute(f"{func} of a giant tensor")
            return args[0]
        imagined = _imagined(func, args, given)
        if not _any_large((args, given, imagined)):
            return func(*args, **given)
        return tree_map(_made, imagined)


def is_large(value: object) -> bool:
    """Whether it is a tensor that is sparse in a giant case."""
    return isinstance(value, torch.Tensor) and value.numel() > LARGE


def _any_large(tree: object) -> bool:
    return any(map(is_large, tree_leaves(tree)))


def _allocates(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether it makes a tensor that none of its arguments is as large as."""
    name = func.overloadpacket.__name__
    return name.startswith("new_") or not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves((args, kwargs)))


def _imagined(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The result on torch's device without memory."""
    meta = torch.device("meta")

    def without_memory(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device=meta)
        return meta if isinstance(leaf, torch.device) else leaf

    there = dict(tree_map(without_memory, kwargs))
    if _takes_device(func):
        there["device"] = meta
    try:
        return func(*tree_map(without_memory, args), **there)
    except (NotImplementedError, RuntimeError) as error:
        raise CannotExecute(f"{func} of a giant tensor") from error


def _takes_device(func: Any) -> bool:
    return any(argument.name == "device" for argument in func._schema.arguments)  # noqa: SLF001 - it has no public name


def _made(leaf: Any) -> Any:
    """The tensor that was imagined, of zeros."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    extent = 1 + sum((size - 1) * stride for size, stride in zip(leaf.size(), leaf.stride(), strict=True))
    flat = sparse((extent,), leaf.dtype) if is_large(leaf) else torch.zeros(max(0, extent), dtype=leaf.dtype)
    return flat.as_strided(leaf.size(), leaf.stride()) if leaf.numel() else flat.new_empty(leaf.size())
