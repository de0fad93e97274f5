"""Wrong: unbiased variance (size - 1)."""

import torch
import triton
import triton.language as tl


@triton.jit
def gn_fwd(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, C, HW, G, CPG, eps, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    n = pid // G
    g = pid % G
    size = CPG * HW
    base = (n * C + g * CPG) * HW
    s = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, size, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        s += tl.load(x_ptr + base + offs, mask=offs < size, other=0.0)
    mean = tl.sum(s, axis=0) / size
    v = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, size, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + offs, mask=offs < size, other=0.0)
        d = tl.where(offs < size, x - mean, 0.0)
        v += d * d
    var = tl.sum(v, axis=0) / (size - 1)
    rstd = 1.0 / tl.sqrt(var + eps)
    tl.store(mean_ptr + pid, mean)
    tl.store(rstd_ptr + pid, rstd)
    for start in range(0, size, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < size
        x = tl.load(x_ptr + base + offs, mask=mask, other=0.0)
        c = g * CPG + offs // HW
        w = tl.load(w_ptr + c, mask=mask, other=0.0)
        b = tl.load(b_ptr + c, mask=mask, other=0.0)
        tl.store(y_ptr + base + offs, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def gn_bwd_dx(dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, C, HW, G, CPG, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    n = pid // G
    g = pid % G
    size = CPG * HW
    base = (n * C + g * CPG) * HW
    mean = tl.load(mean_ptr + pid)
    rstd = tl.load(rstd_ptr + pid)
    s1 = tl.zeros((BLOCK,), dtype=tl.float32)
    s2 = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, size, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < size
        dy = tl.load(dy_ptr + base + offs, mask=mask, other=0.0)
        x = tl.load(x_ptr + base + offs, mask=mask, other=0.0)
        w = tl.load(w_ptr + g * CPG + offs // HW, mask=mask, other=0.0)
        wdy = w * dy
        s1 += wdy
        s2 += wdy * (x - mean) * rstd
    c1 = tl.sum(s1, axis=0) / size
    c2 = tl.sum(s2, axis=0) / size
    for start in range(0, size, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < size
        dy = tl.load(dy_ptr + base + offs, mask=mask, other=0.0)
        x = tl.load(x_ptr + base + offs, mask=mask, other=0.0)
        w = tl.load(w_ptr + g * CPG + offs // HW, mask=mask, other=0.0)
        xhat = (x - mean) * rstd
        tl.store(dx_ptr + base + offs, rstd * (w * dy - c1 - xhat * c2), mask=mask)


@triton.jit
def gn_bwd_wb(dy_ptr, x_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, N, C, HW, G, CPG, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    g = c // CPG
    aw = tl.zeros((BLOCK,), dtype=tl.float32)
    ab = tl.zeros((BLOCK,), dtype=tl.float32)
    for n in range(N):
        mean = tl.load(mean_ptr + n * G + g)
        rstd = tl.load(rstd_ptr + n * G + g)
        base = (n * C + c) * HW
        for start in range(0, HW, BLOCK):
            offs = start + tl.arange(0, BLOCK)
            mask = offs < HW
            dy = tl.load(dy_ptr + base + offs, mask=mask, other=0.0)
            x = tl.load(x_ptr + base + offs, mask=mask, other=0.0)
            aw += dy * (x - mean) * rstd
            ab += dy
    tl.store(dw_ptr + c, tl.sum(aw, axis=0))
    tl.store(db_ptr + c, tl.sum(ab, axis=0))


class GNFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, G, eps):
        x = x.contiguous()
        w = w.contiguous()
        b = b.contiguous()
        N, C = x.shape[0], x.shape[1]
        HW = x.numel() // (N * C)
        y = torch.empty_like(x)
        mean = torch.empty(N * G, device=x.device, dtype=torch.float32)
        rstd = torch.empty(N * G, device=x.device, dtype=torch.float32)
        gn_fwd[(N * G,)](x, w, b, y, mean, rstd, C, HW, G, C // G, eps, BLOCK=256)
        ctx.save_for_backward(x, w, mean, rstd)
        ctx.dims = (N, C, HW, G)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w, mean, rstd = ctx.saved_tensors
        N, C, HW, G = ctx.dims
        dy = dy.contiguous()
        dx = torch.empty_like(x)
        dw = torch.empty_like(w)
        db = torch.empty_like(w)
        gn_bwd_dx[(N * G,)](dy, x, w, mean, rstd, dx, C, HW, G, C // G, BLOCK=256)
        gn_bwd_wb[(C,)](dy, x, mean, rstd, dw, db, N, C, HW, G, C // G, BLOCK=256)
        return dx, dw, db, None, None


class ModelNew(torch.nn.Module):
    def __init__(self, groups, eps):
        super().__init__()
        self.groups = groups
        self.eps = eps

    def forward(self, x, weight, bias):
        return GNFn.apply(x, weight, bias, self.groups, self.eps)
