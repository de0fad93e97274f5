"""Losses of rows: cross entropy with smoothing and z-loss, KL divergence, cosine distance, and losses of elements."""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 256
"""The columns that the kernels of cross entropy read at once, and the elements of losses of elements."""


@triton.jit
def cross_entropy_kernel(x, labels, loss, lse, V, smoothing, z_loss, IGNORED: tl.constexpr, BLOCK: tl.constexpr):
    """Store the loss of one row and its logsumexp, from one pass over the logits."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    m = float("-inf")
    total = 0.0
    s_x = 0.0
    for start in range(0, V, BLOCK):
        b_x = tl.load(x + i_t * V + start + o, mask=start + o < V, other=float("-inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(b_x, axis=0))
        total = total * tl.exp(m - m_new) + tl.sum(tl.exp(b_x - m_new), axis=0)
        s_x += tl.sum(tl.where(start + o < V, b_x, 0.0), axis=0)
        m = m_new
    s_lse = m + tl.log(total)
    label = tl.load(labels + i_t)
    s_loss = 0.0
    if label != IGNORED:
        x_label = tl.load(x + i_t * V + label).to(tl.float32)
        s_loss = s_lse - (1.0 - smoothing) * x_label - smoothing * (s_x / V) + z_loss * s_lse * s_lse
    tl.store(loss + i_t, s_loss)
    tl.store(lse + i_t, s_lse)


@triton.jit
def cross_entropy_grad_kernel(
    x, labels, lse, dloss, dx, V, smoothing, z_loss, IGNORED: tl.constexpr, BLOCK: tl.constexpr
):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    label = tl.load(labels + i_t)
    s_lse = tl.load(lse + i_t)
    b_x = tl.load(x + i_t * V + o, mask=o < V, other=float("-inf")).to(tl.float32)
    b_dx = tl.exp(b_x - s_lse) * (1.0 + 2.0 * z_loss * s_lse) - smoothing / V
    b_dx -= tl.where(o == label, 1.0 - smoothing, 0.0)
    b_dx *= tl.load(dloss + i_t).to(tl.float32)
    b_dx = tl.where(label != IGNORED, b_dx, 0.0)
    tl.store(dx + i_t * V + o, b_dx.to(dx.dtype.element_ty), mask=o < V)


@triton.jit
def divergence_kernel(log_p, target, loss, D, BLOCK: tl.constexpr):
    """Sum t * (log t - log p); terms of t = 0 are zero."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_p = tl.load(log_p + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_t = tl.load(target + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_log = tl.log(tl.where(b_t > 0.0, b_t, 1.0))
    tl.store(loss + i_t, tl.sum(tl.where(b_t > 0.0, b_t * (b_log - b_p), 0.0), axis=0))


@triton.jit
def divergence_grad_kernel(target, dloss, dlog_p, D, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_t = tl.load(target + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_d = -tl.load(dloss + i_t).to(tl.float32) * b_t
    tl.store(dlog_p + i_t * D + o, b_d.to(dlog_p.dtype.element_ty), mask=o < D)


@triton.jit
def cosine_kernel(x, y, loss, D, eps, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_y = tl.load(y + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    r_x = 1.0 / tl.sqrt(tl.sum(b_x * b_x, axis=0) + eps)
    r_y = 1.0 / tl.sqrt(tl.sum(b_y * b_y, axis=0) + eps)
    tl.store(loss + i_t, 1.0 - tl.sum(b_x * b_y, axis=0) * r_x * r_y)


@triton.jit
def cosine_grad_kernel(x, y, dloss, dx, dy, D, eps, BLOCK: tl.constexpr):
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BLOCK)
    b_x = tl.load(x + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    b_y = tl.load(y + i_t * D + o, mask=o < D, other=0.0).to(tl.float32)
    r_x = 1.0 / tl.sqrt(tl.sum(b_x * b_x, axis=0) + eps)
    r_y = 1.0 / tl.sqrt(tl.sum(b_y * b_y, axis=0) + eps)
    cosine = tl.sum(b_x * b_y, axis=0) * r_x * r_y
    s_d = -tl.load(dloss + i_t).to(tl.float32)
    b_dx = s_d * r_x * (b_y * r_y - cosine * (b_x * r_x))
    b_dy = s_d * r_y * (b_x * r_x - cosine * (b_y * r_y))
    tl.store(dx + i_t * D + o, b_dx.to(dx.dtype.element_ty), mask=o < D)
    tl.store(dy + i_t * D + o, b_dy.to(dy.dtype.element_ty), mask=o < D)


@triton.jit
def logits_loss_kernel(x, target, loss, SIZE, BLOCK: tl.constexpr):
    """Binary cross entropy: max(x, 0) - x * t + log(1 + exp(-|x|))."""
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_t = tl.load(target + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_loss = tl.maximum(b_x, 0.0) - b_x * b_t + tl.log(1.0 + tl.exp(-tl.abs(b_x)))
    tl.store(loss + o, b_loss.to(loss.dtype.element_ty), mask=o < SIZE)


@triton.jit
def logits_loss_grad_kernel(x, target, dloss, dx, SIZE, BLOCK: tl.constexpr):
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_t = tl.load(target + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_d = tl.load(dloss + o, mask=o < SIZE, other=0.0).to(tl.float32)
    tl.store(dx + o, (b_d * (tl.sigmoid(b_x) - b_t)).to(dx.dtype.element_ty), mask=o < SIZE)


@triton.jit
def huber_kernel(x, y, loss, SIZE, delta, BLOCK: tl.constexpr):
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_e = tl.abs(b_x - tl.load(y + o, mask=o < SIZE, other=0.0).to(tl.float32))
    b_loss = tl.where(b_e <= delta, 0.5 * b_e * b_e, delta * (b_e - 0.5 * delta))
    tl.store(loss + o, b_loss.to(loss.dtype.element_ty), mask=o < SIZE)


@triton.jit
def huber_grad_kernel(x, y, dloss, dx, SIZE, delta, BLOCK: tl.constexpr):
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_x = tl.load(x + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_e = b_x - tl.load(y + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_d = tl.load(dloss + o, mask=o < SIZE, other=0.0).to(tl.float32)
    b_dx = b_d * tl.minimum(tl.maximum(b_e, -delta), delta)
    tl.store(dx + o, b_dx.to(dx.dtype.element_ty), mask=o < SIZE)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, labels: torch.Tensor, smoothing: float, z_loss: float, ignored: int
    ) -> torch.Tensor:
        x, labels = x.contiguous(), labels.contiguous()
        rows, columns = x.shape
        loss, lse = (torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(2))
        ctx.settings = (columns, smoothing, z_loss)
        ctx.ignored = ignored
        cross_entropy_kernel[(rows,)](x, labels, loss, lse, *ctx.settings, IGNORED=ignored, BLOCK=BLOCK)
        ctx.save_for_backward(x, labels, lse)
        return loss

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        x, labels, lse = ctx.saved_tensors
        dx = torch.empty_like(x)
        rows, columns = x.shape
        cross_entropy_grad_kernel[(rows, triton.cdiv(columns, BLOCK))](
            x, labels, lse, dloss.contiguous(), dx, *ctx.settings, IGNORED=ctx.ignored, BLOCK=BLOCK
        )
        return dx, None, None, None, None


class Divergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_p: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        log_p, target = log_p.contiguous(), target.contiguous()
        rows, columns = log_p.shape
        loss = torch.empty(rows, dtype=torch.float32, device=log_p.device)
        divergence_kernel[(rows,)](log_p, target, loss, columns, BLOCK=triton.next_power_of_2(columns))
        ctx.save_for_backward(target)
        return loss

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor) -> tuple[torch.Tensor, None]:
        (target,) = ctx.saved_tensors
        dlog_p = torch.empty_like(target)
        rows, columns = target.shape
        block = triton.next_power_of_2(columns)
        divergence_grad_kernel[(rows,)](target, dloss.contiguous(), dlog_p, columns, BLOCK=block)
        return dlog_p, None


class Cosine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor, eps: float) -> torch.Tensor:
        x, y = x.contiguous(), y.contiguous()
        rows, columns = x.shape
        loss = torch.empty(rows, dtype=torch.float32, device=x.device)
        cosine_kernel[(rows,)](x, y, loss, columns, eps, BLOCK=triton.next_power_of_2(columns))
        ctx.save_for_backward(x, y)
        ctx.eps = eps
        return loss

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        x, y = ctx.saved_tensors
        dx, dy = torch.empty_like(x), torch.empty_like(y)
        rows, columns = x.shape
        block = triton.next_power_of_2(columns)
        cosine_grad_kernel[(rows,)](x, y, dloss.contiguous(), dx, dy, columns, ctx.eps, BLOCK=block)
        return dx, dy, None


class LogitsLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x, target = x.contiguous(), target.contiguous()
        loss = torch.empty_like(x)
        logits_loss_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, target, loss, x.numel(), BLOCK=BLOCK)
        ctx.save_for_backward(x, target)
        return loss

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor) -> tuple[torch.Tensor, None]:
        x, target = ctx.saved_tensors
        dx, size = torch.empty_like(x), x.numel()
        logits_loss_grad_kernel[(triton.cdiv(size, BLOCK),)](x, target, dloss.contiguous(), dx, size, BLOCK=BLOCK)
        return dx, None


class Huber(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor, delta: float) -> torch.Tensor:
        x, y = x.contiguous(), y.contiguous()
        loss = torch.empty_like(x)
        huber_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, loss, x.numel(), delta, BLOCK=BLOCK)
        ctx.save_for_backward(x, y)
        ctx.delta = delta
        return loss

    @staticmethod
    def backward(ctx: Any, dloss: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        x, y = ctx.saved_tensors
        dx, size = torch.empty_like(x), x.numel()
        huber_grad_kernel[(triton.cdiv(size, BLOCK),)](x, y, dloss.contiguous(), dx, size, ctx.delta, BLOCK=BLOCK)
        return dx, -dx, None


def cross_entropy(
    x: torch.Tensor, labels: torch.Tensor, *, smoothing: float = 0.0, z_loss: float = 0.0, ignored: int = -100
) -> torch.Tensor:
    return CrossEntropy.apply(x, labels, smoothing, z_loss, ignored)


def divergence(log_p: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return Divergence.apply(log_p, target)


def cosine(x: torch.Tensor, y: torch.Tensor, eps: float) -> torch.Tensor:
    return Cosine.apply(x, y, eps)


def logits_loss(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return LogitsLoss.apply(x, target)


def huber(x: torch.Tensor, y: torch.Tensor, delta: float) -> torch.Tensor:
    return Huber.apply(x, y, delta)
