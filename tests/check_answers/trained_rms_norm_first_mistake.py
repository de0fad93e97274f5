"""Wrong: weight gradient gathered by load, add, store instead of an atomic add: a race between rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_fwd(x_ptr, w_ptr, y_ptr, rstd_ptr, D, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    x = tl.load(x_ptr + row * D + cols, mask=mask, other=0.0)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    ms = tl.sum(x * x, axis=0) / D
    rstd = 1.0 / tl.sqrt(ms + eps)
    tl.store(y_ptr + row * D + cols, x * rstd * w, mask=mask)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def rms_bwd(g_ptr, x_ptr, w_ptr, rstd_ptr, dx_ptr, dw_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    g = tl.load(g_ptr + row * D + cols, mask=mask, other=0.0)
    x = tl.load(x_ptr + row * D + cols, mask=mask, other=0.0)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    rstd = tl.load(rstd_ptr + row)
    xhat = x * rstd
    gw = g * w
    c = tl.sum(gw * xhat, axis=0) / D
    dx = rstd * (gw - xhat * c)
    tl.store(dx_ptr + row * D + cols, dx, mask=mask)
    old = tl.load(dw_ptr + cols, mask=mask, other=0.0)
    tl.store(dw_ptr + cols, old + g * xhat, mask=mask)


class RMSNormFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        D = x.shape[-1]
        x2 = x.contiguous().view(-1, D)
        w = weight.contiguous()
        N = x2.shape[0]
        y = torch.empty_like(x2)
        rstd = torch.empty(N, device=x.device, dtype=torch.float32)
        BLOCK = triton.next_power_of_2(D)
        rms_fwd[(N,)](x2, w, y, rstd, D, eps, BLOCK=BLOCK)
        ctx.save_for_backward(x2, w, rstd)
        ctx.shape = x.shape
        return y.view(x.shape)

    @staticmethod
    def backward(ctx, g):
        x2, w, rstd = ctx.saved_tensors
        N, D = x2.shape
        g = g.contiguous()
        dx = torch.empty_like(x2)
        dw = torch.zeros_like(w)
        rms_bwd[(N,)](g, x2, w, rstd, dx, dw, D, BLOCK=triton.next_power_of_2(D))
        return dx.view(ctx.shape), dw, None


class ModelNew(torch.nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x, weight):
        return RMSNormFn.apply(x, weight, self.eps)
