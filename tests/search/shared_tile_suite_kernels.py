"""The product of two matrices in one step over the whole depth; of two kernels one has the depth in its key."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"TILE": 16}), triton.Config({"TILE": 128})]


@triton.jit
def product_at_once(x, w, y, T, D, TILE: tl.constexpr, DEPTH: tl.constexpr):
    o_t = tl.program_id(0) * TILE + tl.arange(0, TILE)
    o_d = tl.program_id(1) * TILE + tl.arange(0, TILE)
    o_k = tl.arange(0, DEPTH)
    b_x = tl.load(x + o_t[:, None] * D + o_k[None, :], mask=(o_t[:, None] < T) & (o_k[None, :] < D), other=0.0)
    b_w = tl.load(w + o_k[:, None] * D + o_d[None, :], mask=(o_k[:, None] < D) & (o_d[None, :] < D), other=0.0)
    tl.store(y + o_t[:, None] * D + o_d[None, :], tl.dot(b_x, b_w), mask=(o_t[:, None] < T) & (o_d[None, :] < D))


shared_kernel = triton.autotune(configs=CONFIGS, key=[])(product_at_once)
own_kernel = triton.autotune(configs=CONFIGS, key=["DEPTH"])(product_at_once)


def product(x: torch.Tensor, w: torch.Tensor, *, has_key: bool) -> torch.Tensor:
    rows, columns = x.shape
    y = torch.empty_like(x)
    (own_kernel if has_key else shared_kernel)[
        lambda meta: (triton.cdiv(rows, meta["TILE"]), triton.cdiv(columns, meta["TILE"]))
    ](x, w, y, rows, columns, DEPTH=max(16, triton.next_power_of_2(columns)))
    return y
