"""Tensors of billions of elements that take no memory, for oversized cases, which check addresses and not values.

A large tensor is a shared mapping of zeros, whose pages exist once they are touched; RLIMIT_DATA does not count it.
Torch's operations would touch all of it.  While `SparseMemory` is active, they do not run on large tensors.  Their
results have the right shape, type and strides, and hold zeros.
"""

import mmap
from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import TracebackType
from typing import Any

import torch

from harness.engines.torch.torch_seam import (
    HigherOrderOperator,
    OperatorMode,
    custom_operator,
    schema_of,
    takes_device,
    tree_leaves,
    tree_map,
)
from harness.errors import CannotExecute, HarnessError

LARGE = 1 << 24
"""Tensors of more elements are sparse in oversized cases."""
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
"""The mmap flag with which Linux reserves no memory.  Python has its name since 3.13."""
READS = frozenset({"_local_scalar_dense", "equal", "is_nonzero"})
"""Operations that give host code a number."""
FRESH = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "new_zeros", "zero_"}
    | {"zeros", "zeros_like"}
)
"""Operations whose result follows from no value."""
COPIES = frozenset({"clone", "_to_copy", "copy_"})
"""Operations whose zeros in place of large tensors are values that those may have."""
MOVES_STORAGE = frozenset({"set_", "resize_", "resize_as_"})


def sparse(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Return a contiguous tensor of zeros that takes memory only where it is touched.

    Raises:
        MemoryError: the address space is too small, or Linux does not overcommit memory.
    """
    size = max(1, prod(shape)) * torch.empty(0, dtype=dtype).element_size()
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | NO_RESERVE)
    except OSError as error:
        raise MemoryError(f"a sparse mapping of {size} bytes: {error}") from error
    return torch.frombuffer(pages, dtype=dtype, count=prod(shape)).view(tuple(shape))


class UnknownValues:
    """The tensors of one oversized case whose values were not computed, or only in part."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}
        """By address.  They are kept, so that no other tensor gets the address."""
        self.have_been_read = False
        """True once host code has read a number from such a tensor."""

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage.nbytes():
            self._storages[storage.data_ptr()] = storage

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return not tensor.is_meta and tensor.untyped_storage().data_ptr() in self._storages


_active: list["SparseMemory"] = []


def unknown_values() -> UnknownValues:
    """Return the unknown values of the oversized case that runs now, in any thread; none if no such case runs."""
    return _active[-1].unknown if _active else UnknownValues()


class SparseMemory(OperatorMode):
    """While active, large tensors that torch allocates are sparse, and operations on large tensors return zeros.

    A number that host code reads from such a result is wrong.  An exception after that says nothing about the library.
    A library's own operators, and launches through `torch.library.wrap_triton`, run as they are.
    """

    supports_higher_order_operators = True

    def __init__(self, unknown: UnknownValues | None = None) -> None:
        """The contexts of one case share `unknown`."""
        super().__init__()
        self.unknown = unknown or UnknownValues()
        self._has_read_sparse = False

    def __enter__(self) -> Any:
        _active.append(self)
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _active.remove(self)
        super().__exit__(kind, error, at)
        has_read = self.unknown.have_been_read or self._has_read_sparse
        if has_read and isinstance(error, Exception) and not isinstance(error, HarnessError):
            raise CannotExecute("host code that depends on values of an oversized tensor") from error

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call views and small operations; otherwise return zeros of the right shape.

        Raises:
            CannotExecute: the shape of the result depends on values.
        """
        named = dict(kwargs or {})
        if isinstance(func, HigherOrderOperator):
            return func(*args, **named)
        if (own := custom_operator(func)) is not None:
            with self, torch.no_grad():  # dispatched again, it would arrive here again
                return own(*args, **named)
        name = func.overloadpacket.__name__
        follows = any(isinstance(leaf, torch.Tensor) and leaf in self.unknown for leaf in tree_leaves((args, named)))
        if name in READS:
            self.unknown.have_been_read |= follows
            self._has_read_sparse |= any(map(_is_part_of_large, tree_leaves(args)))
        result = self._called(func, args, named)
        is_computed = name not in COPIES and not func.is_view and _any_large((args, named))
        if name not in FRESH and (follows or is_computed):
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor):
                    self.unknown.add(leaf)
        return result

    def _called(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if func.is_view or not (_allocates(func, args, named) or _any_large((args, named))):
            return func(*args, **named)
        if schema_of(func).is_mutable:
            if func.overloadpacket.__name__ in MOVES_STORAGE:
                raise CannotExecute(f"{func} of an oversized tensor")
            return args[0]
        result = _without_memory(func, args, named)
        if not _any_large((args, named, result)):
            return func(*args, **named)
        return tree_map(_zeros_like, result)


def is_large(value: object) -> bool:
    """Return True for a tensor that is sparse in an oversized case."""
    return isinstance(value, torch.Tensor) and value.numel() > LARGE


def _is_part_of_large(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.untyped_storage().nbytes() > LARGE * value.element_size()


def _any_large(tree: object) -> bool:
    return any(map(is_large, tree_leaves(tree)))


def _allocates(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return True if the operation may make a tensor that is larger than all its arguments."""
    name = func.overloadpacket.__name__
    return name.startswith("new_") or not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves((args, kwargs)))


def _without_memory(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return the operation's result on the meta device: shapes, types and strides without memory."""
    meta = torch.device("meta")

    def on_meta(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device=meta)
        return meta if isinstance(leaf, torch.device) else leaf

    meta_kwargs = dict(tree_map(on_meta, kwargs))
    if takes_device(func):
        meta_kwargs["device"] = meta
    try:
        return func(*tree_map(on_meta, args), **meta_kwargs)
    except (NotImplementedError, RuntimeError) as error:
        raise CannotExecute(f"{func} of an oversized tensor") from error


def _zeros_like(leaf: Any) -> Any:
    """Return zeros of the shape and strides of a tensor on the meta device."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    extent = 1 + sum((size - 1) * stride for size, stride in zip(leaf.size(), leaf.stride(), strict=True))
    flat = sparse((extent,), leaf.dtype) if is_large(leaf) else torch.zeros(max(0, extent), dtype=leaf.dtype)
    return flat.as_strided(leaf.size(), leaf.stride()) if leaf.numel() else flat.new_empty(leaf.size())
