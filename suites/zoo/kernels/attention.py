"""Attention: flash-style forward and backward, and decoding of one token with keys split among programs."""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 32
"""The queries and keys of a tile."""
SPLIT = 64
"""The keys that one program of decoding reads."""
LEAST_WIDTH = 16
"""The least extent of a tile of `tl.dot`."""


@triton.jit
def load_tile(p, o_t, o_k, T, stride_t, K):
    """Load the rows `o_t` of one head as a tile."""
    at = o_t[:, None].to(tl.int64) * stride_t + o_k[None, :]
    return tl.load(p + at, mask=(o_t[:, None] < T) & (o_k[None, :] < K), other=0.0)


@triton.jit
def store_tile(p, b_p, o_t, o_k, T, stride_t, K):
    at = o_t[:, None].to(tl.int64) * stride_t + o_k[None, :]
    tl.store(p + at, b_p.to(p.dtype.element_ty), mask=(o_t[:, None] < T) & (o_k[None, :] < K))


@triton.jit
def scores_of(b_q, b_k, o_q, o_k, T, scale, masked, CAUSAL: tl.constexpr):
    """Return the scores of a tile, `masked` where a query does not see a key, and -inf beyond the last key."""
    b_s = tl.dot(b_q, tl.trans(b_k), input_precision="ieee") * scale
    if CAUSAL:
        b_s = tl.where(o_q[:, None] >= o_k[None, :], b_s, masked)
    return tl.where(o_k[None, :] < T, b_s, float("-inf"))


@triton.jit
def attention_kernel(
    q, k, v, y, lse, T, H, scale, masked,
    K: tl.constexpr, CAUSAL: tl.constexpr, SKIPS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    i_b, i_h = tl.program_id(1) // H, tl.program_id(1) % H
    head = i_b.to(tl.int64) * T * H * K + i_h * K
    o_q = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o_d = tl.arange(0, WIDTH)
    b_q = load_tile(q + head, o_q, o_d, T, H * K, K)
    b_m = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    b_sum = tl.zeros((BLOCK,), dtype=tl.float32)
    b_y = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    last = tl.minimum(T, (tl.program_id(0) + 1) * BLOCK) if SKIPS else T
    for start in range(0, last, BLOCK):
        o_k = start + tl.arange(0, BLOCK)
        b_k = load_tile(k + head, o_k, o_d, T, H * K, K)
        b_v = load_tile(v + head, o_k, o_d, T, H * K, K)
        b_s = scores_of(b_q, b_k, o_q, o_k, T, scale, masked, CAUSAL)
        b_m_new = tl.maximum(b_m, tl.max(b_s, axis=1))
        b_p = tl.exp(b_s - b_m_new[:, None])
        b_decay = tl.exp(b_m - b_m_new)
        b_sum = b_sum * b_decay + tl.sum(b_p, axis=1)
        b_y = tl.dot(b_p.to(b_v.dtype), b_v, b_y * b_decay[:, None], input_precision="ieee")
        b_m = b_m_new
    store_tile(y + head, b_y / b_sum[:, None], o_q, o_d, T, H * K, K)
    tl.store(lse + tl.program_id(1).to(tl.int64) * T + o_q, b_m + tl.log(b_sum), mask=o_q < T)


@triton.jit
def attention_delta_kernel(y, dy, delta, T, H, K, WIDTH: tl.constexpr):
    """Store sum(y * dy) of one token and head."""
    i_b, i_h = tl.program_id(1) // H, tl.program_id(1) % H
    at = ((i_b.to(tl.int64) * T + tl.program_id(0)) * H + i_h) * K + tl.arange(0, WIDTH)
    mask = tl.arange(0, WIDTH) < K
    b_y = tl.load(y + at, mask=mask, other=0.0).to(tl.float32)
    b_dy = tl.load(dy + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(delta + tl.program_id(1).to(tl.int64) * T + tl.program_id(0), tl.sum(b_y * b_dy, axis=0))


@triton.jit
def grad_of_scores(b_q, b_k, b_v, b_dy, b_lse, b_delta, o_q, o_k, T, scale, masked, CAUSAL: tl.constexpr):
    """Return the probabilities of a tile, and the gradient of its scores."""
    b_s = scores_of(b_q, b_k, o_q, o_k, T, scale, masked, CAUSAL)
    b_p = tl.where(o_q[:, None] < T, tl.exp(b_s - b_lse[:, None]), 0.0)
    b_dp = tl.dot(b_dy, tl.trans(b_v), input_precision="ieee")
    b_ds = b_p * (b_dp - b_delta[:, None]) * scale
    if CAUSAL:
        b_ds = tl.where(o_q[:, None] >= o_k[None, :], b_ds, 0.0)
    return b_p, b_ds


@triton.jit
def attention_dq_kernel(
    q, k, v, lse, delta, dy, dq, T, H, scale, masked,
    K: tl.constexpr, CAUSAL: tl.constexpr, SKIPS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    i_b, i_h = tl.program_id(1) // H, tl.program_id(1) % H
    head = i_b.to(tl.int64) * T * H * K + i_h * K
    row = tl.program_id(1).to(tl.int64) * T
    o_q = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o_d = tl.arange(0, WIDTH)
    b_q = load_tile(q + head, o_q, o_d, T, H * K, K)
    b_dy = load_tile(dy + head, o_q, o_d, T, H * K, K)
    b_lse = tl.load(lse + row + o_q, mask=o_q < T, other=0.0)
    b_delta = tl.load(delta + row + o_q, mask=o_q < T, other=0.0)
    b_dq = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    last = tl.minimum(T, (tl.program_id(0) + 1) * BLOCK) if SKIPS else T
    for start in range(0, last, BLOCK):
        o_k = start + tl.arange(0, BLOCK)
        b_k = load_tile(k + head, o_k, o_d, T, H * K, K)
        b_v = load_tile(v + head, o_k, o_d, T, H * K, K)
        _b_p, b_ds = grad_of_scores(b_q, b_k, b_v, b_dy, b_lse, b_delta, o_q, o_k, T, scale, masked, CAUSAL)
        b_dq = tl.dot(b_ds.to(b_k.dtype), b_k, b_dq, input_precision="ieee")
    store_tile(dq + head, b_dq, o_q, o_d, T, H * K, K)


@triton.jit
def attention_dkv_kernel(
    q, k, v, lse, delta, dy, dk, dv, T, H, scale, masked,
    K: tl.constexpr, CAUSAL: tl.constexpr, SKIPS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    i_b, i_h = tl.program_id(1) // H, tl.program_id(1) % H
    head = i_b.to(tl.int64) * T * H * K + i_h * K
    row = tl.program_id(1).to(tl.int64) * T
    o_k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    o_d = tl.arange(0, WIDTH)
    b_k = load_tile(k + head, o_k, o_d, T, H * K, K)
    b_v = load_tile(v + head, o_k, o_d, T, H * K, K)
    b_dk = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    b_dv = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    first = tl.program_id(0) * BLOCK if SKIPS else 0
    for start in range(first, T, BLOCK):
        o_q = start + tl.arange(0, BLOCK)
        b_q = load_tile(q + head, o_q, o_d, T, H * K, K)
        b_dy = load_tile(dy + head, o_q, o_d, T, H * K, K)
        b_lse = tl.load(lse + row + o_q, mask=o_q < T, other=0.0)
        b_delta = tl.load(delta + row + o_q, mask=o_q < T, other=0.0)
        b_p, b_ds = grad_of_scores(b_q, b_k, b_v, b_dy, b_lse, b_delta, o_q, o_k, T, scale, masked, CAUSAL)
        b_dv = tl.dot(tl.trans(b_p).to(b_dy.dtype), b_dy, b_dv, input_precision="ieee")
        b_dk = tl.dot(tl.trans(b_ds).to(b_q.dtype), b_q, b_dk, input_precision="ieee")
    store_tile(dk + head, b_dk, o_k, o_d, T, H * K, K)
    store_tile(dv + head, b_dv, o_k, o_d, T, H * K, K)


@triton.jit
def decode_split_kernel(
    q, k, v, partial, partial_lse, S, H, scale, K: tl.constexpr, SPLIT: tl.constexpr, WIDTH: tl.constexpr
):
    """Attend to the keys of one split: store the result, normalised within the split, and its logsumexp."""
    i_s, i_bh = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i_b, i_h = i_bh // H, i_bh % H
    o_s = i_s * SPLIT + tl.arange(0, SPLIT)
    o_d = tl.arange(0, WIDTH)
    head = i_b * S * H * K + i_h * K
    b_q = tl.load(q + i_bh * K + o_d, mask=o_d < K, other=0.0).to(tl.float32)
    b_k = load_tile(k + head, o_s, o_d, S, H * K, K).to(tl.float32)
    b_v = load_tile(v + head, o_s, o_d, S, H * K, K).to(tl.float32)
    b_score = tl.where(o_s < S, tl.sum(b_k * b_q[None, :], axis=1) * scale, float("-inf"))
    m = tl.max(b_score, axis=0)
    b_p = tl.exp(b_score - m)
    total = tl.sum(b_p, axis=0)
    b_y = tl.sum(b_p[:, None] * b_v, axis=0) / total
    at = i_bh * tl.num_programs(0) + i_s
    tl.store(partial + at * K + o_d, b_y, mask=o_d < K)
    tl.store(partial_lse + at, m + tl.log(total))


@triton.jit
def decode_combine_kernel(partial, partial_lse, y, SPLITS, K, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    i_bh = tl.program_id(0).to(tl.int64)
    o_s, o_d = tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    b_lse = tl.load(partial_lse + i_bh * SPLITS + o_s, mask=o_s < SPLITS, other=float("-inf"))
    b_weight = tl.exp(b_lse - tl.max(b_lse, axis=0))
    b_weight = b_weight / tl.sum(b_weight, axis=0)
    at = (i_bh * SPLITS + o_s[:, None]) * K + o_d[None, :]
    b_part = tl.load(partial + at, mask=(o_s[:, None] < SPLITS) & (o_d[None, :] < K), other=0.0)
    b_y = tl.sum(b_weight[:, None] * b_part, axis=0)
    tl.store(y + i_bh * K + o_d, b_y.to(y.dtype.element_ty), mask=o_d < K)


def width_of(columns: int) -> int:
    return max(LEAST_WIDTH, triton.next_power_of_2(columns))


class Attention(torch.autograd.Function):
    """Attention of tensors (B, T, H, K), by `masked` where a query does not see a key; skips tiles of -inf."""

    @staticmethod
    def forward(
        ctx: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        causal: bool,  # noqa: FBT001 - autograd passes by position
        masked: float,
    ) -> torch.Tensor:
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, tokens, heads, columns = q.shape
        y = torch.empty_like(q)
        lse = torch.empty(batch, heads, tokens, dtype=torch.float32, device=q.device)
        ctx.sizes = (tokens, heads, columns**-0.5, masked)
        skips = causal and masked == float("-inf")
        ctx.constants = {"K": columns, "CAUSAL": causal, "SKIPS": skips, "BLOCK": BLOCK, "WIDTH": width_of(columns)}
        ctx.grid = (triton.cdiv(tokens, BLOCK), batch * heads)
        attention_kernel[ctx.grid](q, k, v, y, lse, *ctx.sizes, **ctx.constants)
        ctx.save_for_backward(q, k, v, y, lse)
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None, None]:
        q, k, v, y, lse = ctx.saved_tensors
        batch, tokens, heads, columns = q.shape
        dy, delta = dy.contiguous(), torch.empty_like(lse)
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        grid = (tokens, batch * heads)
        attention_delta_kernel[grid](y, dy, delta, tokens, heads, columns, WIDTH=width_of(columns))
        attention_dq_kernel[ctx.grid](q, k, v, lse, delta, dy, dq, *ctx.sizes, **ctx.constants)
        attention_dkv_kernel[ctx.grid](q, k, v, lse, delta, dy, dk, dv, *ctx.sizes, **ctx.constants)
        return dq, dk, dv, None, None


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, masked: float = float("-inf")
) -> torch.Tensor:
    return Attention.apply(q, k, v, causal, masked)


def decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attend from one token (B, H, K) to keys and values (B, S, H, K)."""
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    batch, length, heads, columns = k.shape
    splits = triton.cdiv(length, SPLIT)
    partial = torch.empty(batch * heads, splits, columns, dtype=torch.float32, device=q.device)
    partial_lse = torch.empty(batch * heads, splits, dtype=torch.float32, device=q.device)
    y = torch.empty_like(q)
    width = width_of(columns)
    decode_split_kernel[(splits, batch * heads)](
        q, k, v, partial, partial_lse, length, heads, columns**-0.5, K=columns, SPLIT=SPLIT, WIDTH=width
    )
    block = triton.next_power_of_2(splits)
    decode_combine_kernel[(batch * heads,)](partial, partial_lse, y, splits, columns, BLOCK=block, WIDTH=width)
    return y
