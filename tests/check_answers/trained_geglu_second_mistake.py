"""Wrong: gradient of gelu lacks the a * pdf(a) term."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_cdf(a):
    return 0.5 * (1.0 + tl.erf(a * 0.7071067811865476))


@triton.jit
def geglu_fwd(x_ptr, y_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < D
    a = tl.load(x_ptr + row * 2 * D + cols, mask=mask, other=0.0)
    b = tl.load(x_ptr + row * 2 * D + D + cols, mask=mask, other=0.0)
    tl.store(y_ptr + row * D + cols, a * gelu_cdf(a) * b, mask=mask)


@triton.jit
def geglu_bwd(g_ptr, x_ptr, dx_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < D
    g = tl.load(g_ptr + row * D + cols, mask=mask, other=0.0)
    a = tl.load(x_ptr + row * 2 * D + cols, mask=mask, other=0.0)
    b = tl.load(x_ptr + row * 2 * D + D + cols, mask=mask, other=0.0)
    cdf = gelu_cdf(a)
    0.3989422804014327 * tl.exp(-0.5 * a * a)
    da = g * b * cdf
    db = g * a * cdf
    tl.store(dx_ptr + row * 2 * D + cols, da, mask=mask)
    tl.store(dx_ptr + row * 2 * D + D + cols, db, mask=mask)


class GegluFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        D = x.shape[-1] // 2
        x2 = x.contiguous().view(-1, 2 * D)
        y = torch.empty((x2.shape[0], D), device=x.device, dtype=x.dtype)
        grid = (x2.shape[0], triton.cdiv(D, 128))
        geglu_fwd[grid](x2, y, D, BLOCK=128)
        ctx.save_for_backward(x2)
        ctx.shape = x.shape
        return y.view(*x.shape[:-1], D)

    @staticmethod
    def backward(ctx, g):
        (x2,) = ctx.saved_tensors
        D = x2.shape[1] // 2
        g = g.contiguous()
        dx = torch.empty_like(x2)
        grid = (x2.shape[0], triton.cdiv(D, 128))
        geglu_bwd[grid](g, x2, dx, D, BLOCK=128)
        return dx.view(ctx.shape)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        return GegluFn.apply(x)
