"""The kernel of the contract: a multiple of x, by as many programs as the GPU has SMs."""

# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# Triton reads annotations as its own.
from typing import Any

import torch
import triton
import triton.language as tl

TILE = 16


@triton.jit
def contract_kernel(x, y, rows, factor: tl.constexpr, masks: tl.constexpr, tile: tl.constexpr):  # noqa: PLR0913, PLR0917 - a kernel's arguments
    """Store factor times x; without masks, also beyond its end."""
    for number in range(tl.program_id(0), tl.cdiv(rows, tile), tl.num_programs(0)):
        row = number * tile + tl.arange(0, tile)
        value = factor * tl.load(x + row, mask=row < rows, other=0.0)
        if masks:
            tl.store(y + row, value, mask=row < rows)
        else:
            tl.store(y + row, value)


class Multiple(torch.autograd.Function):
    """The kernel as a function of torch; its gradient is the same multiple of the cotangent."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float, masks: bool) -> Any:  # noqa: FBT001 - torch calls it by position
        """Return factor times x."""
        ctx.factor = factor
        return _launched(x, factor, masks=masks)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return factor times the cotangent; a right kernel, whatever the forward pass did."""
        (cotangent,) = grad_outputs
        return _launched(cotangent, ctx.factor, masks=True), None, None


def multiply(x: Any, factor: float, *, masks: bool) -> Any:
    """Return factor times x, differentiably."""
    return Multiple.apply(x, factor, masks)


def _launched(x: Any, factor: float, *, masks: bool) -> Any:
    x = x.contiguous()
    y = torch.empty_like(x)
    programs = torch.cuda.get_device_properties(x.device).multi_processor_count
    contract_kernel[(programs,)](x, y, x.numel(), factor=factor, masks=masks, tile=TILE)
    return y
