"""Outputs whose backward pass is a function of the check, which sees where it begins and ends."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

Gradients = tuple[torch.Tensor | None, ...]
BackwardPass = Callable[[Gradients], Gradients]
"""Returns the gradient of each source, from the cotangent of each output; None stands for zeros."""


def joined(outputs: Any, sources: Sequence[torch.Tensor], backward: BackwardPass) -> Any:
    """Return outputs in the same memory that depend on the sources, with this backward pass.

    Args:
        outputs: a tensor, or a tuple or list of tensors and other values.  Those that require no gradient have none.
        sources: the tensors of which there are gradients.
        backward: the backward pass.
    """
    is_single = not isinstance(outputs, tuple | list)
    parts: list[Any] = [outputs] if is_single else list(outputs)
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    replaced = iter(_Joint.apply(tensors, backward, *sources))
    parts = [next(replaced) if isinstance(part, torch.Tensor) else part for part in parts]
    return parts[0] if is_single else tuple(parts)


class _Joint(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, outputs: Sequence[torch.Tensor], backward: BackwardPass, *_: torch.Tensor) -> Gradients:
        ctx.backward_pass = backward
        ctx.set_materialize_grads(False)
        parts = tuple(output.detach() for output in outputs)
        ctx.mark_non_differentiable(
            *(part for part, output in zip(parts, outputs, strict=True) if not output.requires_grad)
        )
        return parts

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor | None) -> Any:
        return (None, None, *ctx.backward_pass(grad_outputs))
