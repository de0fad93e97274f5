"""Wrong: forward: the smooth term leaves the target class out (divides by C - 1)."""

import torch
import triton
import triton.language as tl


@triton.jit
def ce_fwd(x_ptr, t_ptr, loss_ptr, lse_ptr, C, smoothing, ignore, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < C
    x = tl.load(x_ptr + row * C + cols, mask=mask, other=-float("inf"))
    t = tl.load(t_ptr + row)
    m = tl.max(x, axis=0)
    lse = m + tl.log(tl.sum(tl.exp(x - m), axis=0))
    valid = t != ignore
    xt = tl.load(x_ptr + row * C + t, mask=valid, other=0.0)
    nll = lse - xt
    smooth = lse - (tl.sum(tl.where(mask, x, 0.0), axis=0) - xt) / (C - 1)
    loss = (1.0 - smoothing) * nll + smoothing * smooth
    tl.store(loss_ptr + row, tl.where(valid, loss, 0.0))
    tl.store(lse_ptr + row, lse)


@triton.jit
def ce_reduce(loss_ptr, t_ptr, out_ptr, cnt_ptr, N, ignore, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    cnt = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < N
        acc += tl.load(loss_ptr + offs, mask=mask, other=0.0)
        t = tl.load(t_ptr + offs, mask=mask, other=ignore)
        cnt += tl.where(t != ignore, 1.0, 0.0)
    n = tl.sum(cnt, axis=0)
    tl.store(cnt_ptr, n)
    tl.store(out_ptr, tl.sum(acc, axis=0) / n)


@triton.jit
def ce_bwd(g_ptr, x_ptr, t_ptr, lse_ptr, cnt_ptr, dx_ptr, C, smoothing, ignore, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < C
    x = tl.load(x_ptr + row * C + cols, mask=mask, other=-float("inf"))
    t = tl.load(t_ptr + row)
    lse = tl.load(lse_ptr + row)
    n = tl.load(cnt_ptr)
    g = tl.load(g_ptr)
    p = tl.exp(x - lse)
    d = p - smoothing / C - tl.where(cols == t, 1.0 - smoothing, 0.0)
    d = d * g / n
    d = tl.where(t != ignore, d, 0.0)
    tl.store(dx_ptr + row * C + cols, d, mask=mask)


class CEFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, t, smoothing, ignore):
        x = x.contiguous()
        t = t.contiguous()
        N, C = x.shape
        loss = torch.empty(N, device=x.device, dtype=torch.float32)
        lse = torch.empty(N, device=x.device, dtype=torch.float32)
        out = torch.empty((), device=x.device, dtype=torch.float32)
        cnt = torch.empty((), device=x.device, dtype=torch.float32)
        BLOCK = triton.next_power_of_2(C)
        ce_fwd[(N,)](x, t, loss, lse, C, smoothing, ignore, BLOCK=BLOCK)
        ce_reduce[(1,)](loss, t, out, cnt, N, ignore, BLOCK=128)
        ctx.save_for_backward(x, t, lse, cnt)
        ctx.smoothing = smoothing
        ctx.ignore = ignore
        return out

    @staticmethod
    def backward(ctx, g):
        x, t, lse, cnt = ctx.saved_tensors
        N, C = x.shape
        dx = torch.empty_like(x)
        BLOCK = triton.next_power_of_2(C)
        ce_bwd[(N,)](g, x, t, lse, cnt, dx, C, ctx.smoothing, ctx.ignore, BLOCK=BLOCK)
        return dx, None, None, None


class ModelNew(torch.nn.Module):
    def __init__(self, smoothing, ignore_index):
        super().__init__()
        self.smoothing = smoothing
        self.ignore_index = ignore_index

    def forward(self, logits, target):
        return CEFn.apply(logits, target, self.smoothing, self.ignore_index)
