"""Results of torch's functions while a candidate runs: a kernel that only copies one of them computes nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

MOST_KEPT = 64


class TorchResults(TorchFunctionMode):
    """Keeps what torch's functions return while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[torch.Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function, and keep its result."""
        made = func(*args, **(kwargs or {}))
        for each in made if isinstance(made, tuple | list) else (made,):
            if isinstance(each, torch.Tensor) and len(self._made) < MOST_KEPT:
                self._made.append(each)
        return made

    def has_all(self, outputs: Mapping[str, torch.Tensor], inputs: Mapping[str, torch.Tensor]) -> bool:
        """Return True if each output has the values of a tensor that torch made in other memory, and of no input."""
        return bool(outputs) and all(self._has(output, inputs) for output in outputs.values())

    def _has(self, output: torch.Tensor, inputs: Mapping[str, torch.Tensor]) -> bool:
        if output.numel() < 2 or any(_are_equal(output, value) for value in inputs.values()):
            return False
        if bool((output == output.reshape(-1)[0]).all()):  # zeros of `torch.zeros`, for example
            return False
        memory = output.untyped_storage().data_ptr()
        others = (made for made in self._made if made.untyped_storage().data_ptr() != memory)
        return any(_are_equal(output, other) for other in others)


def _are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.numel() != other.numel() or one.dtype != other.dtype:
        return False
    return bool((one.detach().reshape(-1) == other.detach().reshape(-1)).all())
