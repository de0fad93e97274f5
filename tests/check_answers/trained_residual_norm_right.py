"""Right."""

import torch
import triton
import triton.language as tl


@triton.jit
def ln_fwd(x_ptr, r_ptr, w_ptr, b_ptr, y_ptr, s_ptr, mean_ptr, rstd_ptr, D, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    x = tl.load(x_ptr + row * D + cols, mask=mask, other=0.0)
    r = tl.load(r_ptr + row * D + cols, mask=mask, other=0.0)
    s = x + r
    mean = tl.sum(s, axis=0) / D
    d = tl.where(mask, s - mean, 0.0)
    var = tl.sum(d * d, axis=0) / D
    rstd = 1.0 / tl.sqrt(var + eps)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    b = tl.load(b_ptr + cols, mask=mask, other=0.0)
    tl.store(y_ptr + row * D + cols, d * rstd * w + b, mask=mask)
    tl.store(s_ptr + row * D + cols, s, mask=mask)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def ln_bwd(dy_ptr, ds_ptr, s_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, pw_ptr, pb_ptr, N, D, P, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    aw = tl.zeros((BLOCK,), dtype=tl.float32)
    ab = tl.zeros((BLOCK,), dtype=tl.float32)
    per = tl.cdiv(N, P)
    for i in range(per):
        row = pid * per + i
        m = mask & (row < N)
        dy = tl.load(dy_ptr + row * D + cols, mask=m, other=0.0)
        ds = tl.load(ds_ptr + row * D + cols, mask=m, other=0.0)
        s = tl.load(s_ptr + row * D + cols, mask=m, other=0.0)
        mean = tl.load(mean_ptr + row, mask=row < N, other=0.0)
        rstd = tl.load(rstd_ptr + row, mask=row < N, other=0.0)
        xhat = tl.where(m, (s - mean) * rstd, 0.0)
        wdy = w * dy
        c1 = tl.sum(wdy, axis=0) / D
        c2 = tl.sum(wdy * xhat, axis=0) / D
        dx = rstd * (wdy - c1 - xhat * c2) + ds
        tl.store(dx_ptr + row * D + cols, dx, mask=m)
        aw += dy * xhat
        ab += dy
    tl.store(pw_ptr + pid * D + cols, aw, mask=mask)
    tl.store(pb_ptr + pid * D + cols, ab, mask=mask)


@triton.jit
def sum_rows(p_ptr, out_ptr, P, D, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < D
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(P):
        acc += tl.load(p_ptr + i * D + cols, mask=mask, other=0.0)
    tl.store(out_ptr + cols, acc, mask=mask)


class LNResFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, r, w, b, eps):
        D = x.shape[-1]
        shape = x.shape
        x2 = x.contiguous().view(-1, D)
        r2 = r.contiguous().view(-1, D)
        w, b = w.contiguous(), b.contiguous()
        N = x2.shape[0]
        y = torch.empty_like(x2)
        s = torch.empty_like(x2)
        mean = torch.empty(N, device=x.device, dtype=torch.float32)
        rstd = torch.empty(N, device=x.device, dtype=torch.float32)
        ln_fwd[(N,)](x2, r2, w, b, y, s, mean, rstd, D, eps, BLOCK=triton.next_power_of_2(D))
        ctx.save_for_backward(s, w, mean, rstd)
        ctx.shape = shape
        return y.view(shape), s.view(shape)

    @staticmethod
    def backward(ctx, dy, ds):
        s, w, mean, rstd = ctx.saved_tensors
        N, D = s.shape
        dy = dy.contiguous()
        ds = ds.contiguous()
        P = min(N, 32)
        dx = torch.empty_like(s)
        pw = torch.empty((P, D), device=s.device, dtype=torch.float32)
        pb = torch.empty((P, D), device=s.device, dtype=torch.float32)
        ln_bwd[(P,)](dy, ds, s, w, mean, rstd, dx, pw, pb, N, D, P, BLOCK=triton.next_power_of_2(D))
        dw = torch.empty_like(w)
        db = torch.empty_like(w)
        grid = (triton.cdiv(D, 128),)
        sum_rows[grid](pw, dw, P, D, BLOCK=128)
        sum_rows[grid](pb, db, P, D, BLOCK=128)
        dx = dx.view(ctx.shape)
        return dx, dx.clone(), dw, db, None


class ModelNew(torch.nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x, residual, weight, bias):
        return LNResFn.apply(x, residual, weight, bias, self.eps)
