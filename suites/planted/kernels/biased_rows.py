"""A bias added to a vector; the backward pass adds its gradient up in memory that stays for the next call."""

import torch
import triton
import triton.language as tl

BLOCK = 16


@triton.jit
def add_bias_kernel(x, bias, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + tl.load(bias), mask=at < n)


@triton.jit
def bias_gradient_kernel(dy, total, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(dy + at, mask=at < n, other=0.0), 0))


_kept: dict[str, torch.Tensor] = {}


class AddBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias, on_device):
        ctx.on_device = on_device
        y = torch.empty_like(x)
        add_bias_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, bias, y, x.numel(), BLOCK=BLOCK)
        return y

    @staticmethod
    def backward(ctx, dy):
        dy = dy.contiguous()
        if "total" not in _kept:
            _kept["total"] = torch.zeros(1, device=dy.device)
        total = _kept["total"]
        if ctx.on_device or not torch.cuda.is_current_stream_capturing():
            total.zero_()
        bias_gradient_kernel[(triton.cdiv(dy.numel(), BLOCK),)](dy, total, dy.numel(), BLOCK=BLOCK)
        return None, total.clone(), None


def add_bias(x, bias, *, on_device):
    """Return the sum; `on_device` says that the kept memory is set to zero in a captured graph too."""
    return AddBias.apply(x, bias, on_device)
