"""The seam to torch: its private names that answer questions, for every room above.

Names that the emulation of a GPU replaces stand in other files of this room, and those of Inductor and TorchDynamo in
`inductor`.  `tests/engines/torch/test_torch_seam.py` keeps them out of all other rooms.

torch has no public names for these up to 2.13.  A release that moves one is refused with the releases that were run.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, cast

import torch

from harness.errors import MissingPart

RELEASES = ("2.11", "2.13")
"""The releases of torch that the tests were run with."""
RUN = f"torch {RELEASES[0]} to {RELEASES[-1]}"
"""The same, as patches name it."""
NATIVE = (
    "DispatchKey",
    "DispatchKeySet",
    "DisableTorchFunction",
    "_DisableTorchDispatch",
    "_dispatch_get_all_op_names",
    "_dispatch_has_kernel_for_dispatch_key",
    "_len_torch_dispatch_stack",
    "_len_torch_function_stack",
    "_pop_torch_dispatch_stack",
    "_pop_torch_function_stack",
    "_storage_Use_Count",
)
"""The names of `torch._C` that are used here."""
PRIVATE_NAMESPACES = ("torch._tensor", "torch._VF")
"""Modules whose functions become methods of tensors and functions of `torch`."""


def moved(name: object) -> MissingPart:
    """Return the error for a private name that the installed release lacks."""
    return MissingPart(
        f"torch {torch.__version__} moved {name}, and the harness was run with torch {' and '.join(RELEASES)}: "
        f"pip install 'torch=={RELEASES[-1]}.*'"
    )


try:
    from torch._library.custom_ops import OPDEFS
    from torch._ops import HigherOrderOperator
    from torch.overrides import TorchFunctionMode
    from torch.overrides import _get_current_function_mode_stack as _function_mode_stack  # pyright: ignore[reportPrivateUsage] - as below
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves, tree_map, tree_map_only
except ImportError as _error:
    raise moved(_error) from None

_native: Any = torch._C  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - this file is the seam
if _missing := [name for name in NATIVE if not hasattr(_native, name)]:
    raise moved(f"torch._C.{_missing[0]}")

__all__ = ["HigherOrderOperator", "OperatorMode", "tree_leaves", "tree_map", "tree_map_only"]


class OperatorMode(TorchDispatchMode):
    """A mode that gets every call of an operator while it is active."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Torch would wrap every call to keep TorchDynamo out, which takes longer than the operation itself.
        return False


def function_modes() -> list[TorchFunctionMode]:
    """Return the modes of torch's functions that are active on this thread, the outermost first."""
    return _function_mode_stack()


def active_modes() -> tuple[int, int]:
    """Return how many modes of torch's functions and of its operators are active on this thread."""
    return len(_function_mode_stack()), _native._len_torch_dispatch_stack()  # noqa: SLF001 - as above


def leave_modes() -> None:
    """Leave all modes that are active on this thread."""
    while _native._len_torch_dispatch_stack():  # noqa: SLF001 - as above
        _native._pop_torch_dispatch_stack(None)  # noqa: SLF001 - as above
    while _native._len_torch_function_stack():  # noqa: SLF001 - as above
        _native._pop_torch_function_stack()  # noqa: SLF001 - as above


def plain_torch() -> AbstractContextManager[None]:
    """Return a context without the torch modes that engines hold around the library: for the harness's own tensors."""
    return _native.DisableTorchFunction()


def without_dispatch_modes() -> AbstractContextManager[None]:
    """Return a context in which no mode sees torch's operators: a launch uses some, but is not made of them."""
    return _native._DisableTorchDispatch()  # noqa: SLF001 - as above


def schema_of(func: Any) -> Any:
    """Return the schema of an operator's overload: its arguments and returns with their aliases."""
    return func._schema  # noqa: SLF001 - as above


def overload_of(func: Any) -> str:
    """Return the name of an overload without the operator's own."""
    return func._overloadname  # noqa: SLF001 - as above


def takes_device(func: Any) -> bool:
    return any(argument.name == "device" for argument in schema_of(func).arguments)


def custom_operator(func: Any) -> Callable[..., Any] | None:
    """Return the function that `torch.library.custom_op` decorated; None for other operators."""
    definition = OPDEFS.get(func.name())
    return None if definition is None else cast("Callable[..., Any]", definition._init_fn)  # noqa: SLF001 - as above


def has_operators(namespace: str) -> bool:
    """Return True if an operator of the namespace is defined, as those of an extension that is loaded."""
    names = _native._dispatch_get_all_op_names()  # noqa: SLF001 - as above
    return any(name.startswith(f"{namespace}::") for name in names)


def composite_keys(func: Any) -> Any:
    """Return the keys of an operator's kernel that calls other operators; None if the CPU has a kernel of its own."""
    has_kernel = _native._dispatch_has_kernel_for_dispatch_key  # noqa: SLF001 - as above
    name = func.name()
    is_composite = has_kernel(name, "CompositeImplicitAutograd") and not has_kernel(name, "CPU")
    return _native.DispatchKeySet(_native.DispatchKey.CompositeImplicitAutograd) if is_composite else None


def cpu_keys() -> Any:
    """Return the keys of an operator's kernel for the CPU."""
    return _native.DispatchKeySet(_native.DispatchKey.CPU)


def is_zeros_without_memory(tensor: torch.Tensor) -> bool:
    """Return True for zeros that autograd makes without a storage, as from `torch.sgn`."""
    return tensor._is_zerotensor()  # noqa: SLF001 - as above


def storage_key(storage: torch.UntypedStorage) -> int:
    """Return what tells storages apart; those of meta tensors have no data pointer."""
    return storage._cdata  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above


def holders(storage: torch.UntypedStorage) -> int:
    """Return how many tensors hold the storage, and one for the storages of Python."""
    return _native._storage_Use_Count(storage_key(storage))  # noqa: SLF001 - as above


def is_held_once(storage: torch.UntypedStorage) -> bool:
    """Return True if nothing but the caller holds the storage."""
    return holders(storage) <= 1
