"""Triton's specialisation of a kernel by its arguments, past the modes of torch that engines hold around the library.

Triton asks each tensor for its type and its address.  With a mode each question is a call of Python, and the answers
are the same: those of a tensor of torch's own class are on no device.
"""

import importlib
from collections.abc import Callable
from types import NoneType
from typing import Any

import torch
import triton
import triton.language as tl

from harness.engines.torch.torch_seam import plain_torch
from harness.engines.triton.triton_releases import TESTED
from harness.patches import PATCHES

_ASKED_PLAINLY = frozenset(
    {
        *(torch.Tensor, torch.nn.Parameter, torch.dtype, tl.dtype, tl.constexpr, triton.JITFunction),
        *(int, float, bool, str, NoneType),
    }
)
"""Types of arguments of which none has a method of its own that Triton calls for tensors."""


def read_arguments_without_modes() -> None:
    """Let kernels that are called for the first time from now on read their arguments so, in this process."""
    jit: Any = importlib.import_module("triton.runtime.jit")
    original: Callable[..., Callable[..., Any]] = jit.create_function_from_signature
    if original.__module__ == __name__:
        return

    def create_function_from_signature(*signature: Any) -> Callable[..., Any]:
        bind = original(*signature)

        def bind_plainly(*args: Any, **kwargs: Any) -> Any:
            if _ASKED_PLAINLY.issuperset(map(type, args)) and _ASKED_PLAINLY.issuperset(map(type, kwargs.values())):
                with plain_torch():
                    return bind(*args, **kwargs)
            return bind(*args, **kwargs)

        return bind_plainly

    why = "read the arguments of a launch without torch's modes"
    PATCHES.replace(jit, "create_function_from_signature", create_function_from_signature, why=why, releases=TESTED)
