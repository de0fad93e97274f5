"""Wrong: grid rounds down: the last rows stay unwritten when rows is no multiple of 8."""

import torch
import triton
import triton.language as tl


@triton.jit
def rope_kernel(
    x_ptr, cos_ptr, sin_ptr, y_ptr, rows, T, H, SIGN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    mask = (r[:, None] < rows) & (c[None, :] < H)
    pos = r % T
    base = r[:, None] * (2 * H) + c[None, :]
    x1 = tl.load(x_ptr + base, mask=mask, other=0.0)
    x2 = tl.load(x_ptr + base + H, mask=mask, other=0.0)
    tab = pos[:, None] * H + c[None, :]
    co = tl.load(cos_ptr + tab, mask=mask, other=0.0)
    si = tl.load(sin_ptr + tab, mask=mask, other=0.0) * SIGN
    tl.store(y_ptr + base, x1 * co - x2 * si, mask=mask)
    tl.store(y_ptr + base + H, x2 * co + x1 * si, mask=mask)


def launch(x, cos, sin, sign):
    B, NH, T, D = x.shape
    y = torch.empty_like(x)
    rows = B * NH * T
    H = D // 2
    grid = (max(1, rows // 8),)
    rope_kernel[grid](x, cos, sin, y, rows, T, H, SIGN=sign, ROWS=8, BLOCK=triton.next_power_of_2(H))
    return y


class RopeFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        x = x.contiguous()
        cos = cos.contiguous()
        sin = sin.contiguous()
        ctx.save_for_backward(cos, sin)
        return launch(x, cos, sin, 1.0)

    @staticmethod
    def backward(ctx, g):
        cos, sin = ctx.saved_tensors
        g = g.contiguous()
        return launch(g, cos, sin, -1.0), None, None


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, cos, sin):
        return RopeFn.apply(x, cos, sin)
