"""Matrix products: tiled, batched, persistent, split along K with atomics, by descriptors, with bias and activation."""

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 32
"""The extent of tiles along M, N and K."""
SPLITS = 4
"""The programs that share the sums of one tile of a product split along K."""
GROUP = 4
"""The rows of tiles that neighbouring programs of a tiled product share."""


@triton.jit
def product_of_tile(
    a, b, i_m, i_n, M, N, first, last, a_m, a_k, b_k, b_n, PRECISION: tl.constexpr, BLOCK: tl.constexpr
):
    """Return one tile of a @ b in float32, with the terms from `first` to `last` along K."""
    o_m = (i_m * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    o_n = (i_n * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    o_k = tl.arange(0, BLOCK)
    b_c = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(first, last, BLOCK):
        k = start + o_k
        p_a = a + o_m[:, None] * a_m + k[None, :] * a_k
        p_b = b + k[:, None] * b_k + o_n[None, :] * b_n
        b_a = tl.load(p_a, mask=(o_m[:, None] < M) & (k[None, :] < last), other=0.0)
        b_b = tl.load(p_b, mask=(k[:, None] < last) & (o_n[None, :] < N), other=0.0)
        b_c = tl.dot(b_a, b_b, b_c, input_precision=PRECISION)
    return b_c


@triton.jit
def store_tile(c, b_c, i_m, i_n, M, N, BLOCK: tl.constexpr):
    o_m = (i_m * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    o_n = i_n * BLOCK + tl.arange(0, BLOCK)
    mask = (o_m[:, None] < M) & (o_n[None, :] < N)
    tl.store(c + o_m[:, None] * N + o_n[None, :], b_c.to(c.dtype.element_ty), mask=mask)


@triton.jit
def matmul_kernel(
    a, b, c, M, N, K, a_z, a_m, a_k, b_z, b_k, b_n,
    PRECISION: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute one tile of one product of a batch; groups of programs share tiles of b."""
    i_z = tl.program_id(1).to(tl.int64)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK), tl.cdiv(N, BLOCK)
    i = tl.program_id(0)
    first = i // (GROUP * tiles_n) * GROUP
    rows = tl.minimum(tiles_m - first, GROUP)
    i_m = first + i % (GROUP * tiles_n) % rows
    i_n = i % (GROUP * tiles_n) // rows
    a += i_z * a_z
    b += i_z * b_z
    b_c = product_of_tile(a, b, i_m, i_n, M, N, 0, K, a_m, a_k, b_k, b_n, PRECISION, BLOCK)
    store_tile(c + i_z * M * N, b_c, i_m, i_n, M, N, BLOCK)


@triton.jit
def persistent_kernel(a, b, c, M, N, K, a_m, a_k, b_k, b_n, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """Compute every tile whose number is this program's, modulo the number of programs."""
    tiles_n = tl.cdiv(N, BLOCK)
    for i in range(tl.program_id(0), tl.cdiv(M, BLOCK) * tiles_n, tl.num_programs(0)):
        i_m, i_n = i // tiles_n, i % tiles_n
        b_c = product_of_tile(a, b, i_m, i_n, M, N, 0, K, a_m, a_k, b_k, b_n, PRECISION, BLOCK)
        store_tile(c, b_c, i_m, i_n, M, N, BLOCK)


@triton.jit
def split_k_kernel(a, b, c, M, N, K, a_m, a_k, b_k, b_n, PER_SPLIT, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """Add this program's terms along K to a tile of c, which holds zeros at first."""
    tiles_n = tl.cdiv(N, BLOCK)
    i_m, i_n = tl.program_id(0) // tiles_n, tl.program_id(0) % tiles_n
    first = tl.program_id(1) * PER_SPLIT
    last = tl.minimum(first + PER_SPLIT, K)
    b_c = product_of_tile(a, b, i_m, i_n, M, N, first, last, a_m, a_k, b_k, b_n, PRECISION, BLOCK)
    o_m = (i_m * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    o_n = i_n * BLOCK + tl.arange(0, BLOCK)
    mask = (o_m[:, None] < M) & (o_n[None, :] < N)
    tl.atomic_add(c + o_m[:, None] * N + o_n[None, :], b_c, mask=mask, sem="relaxed")


@triton.jit
def descriptor_kernel(a, b, c, M, N, K, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """Load and store tiles by descriptors, which fill with zeros what lies outside."""
    i_m, i_n = tl.program_id(0), tl.program_id(1)
    d_a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK, BLOCK])
    d_b = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BLOCK, BLOCK])
    d_c = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK, BLOCK])
    b_c = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        b_a, b_b = d_a.load([i_m * BLOCK, start]), d_b.load([start, i_n * BLOCK])
        b_c = tl.dot(b_a, b_b, b_c, input_precision=PRECISION)
    d_c.store([i_m * BLOCK, i_n * BLOCK], b_c.to(c.dtype.element_ty))


@triton.jit
def linear_kernel(x, w, bias, y, z, M, N, K, ACTIVATION: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """Store z = x @ w.T + bias in float32, and y = activation(z)."""
    i_m, i_n = tl.program_id(0), tl.program_id(1)
    b_z = product_of_tile(x, w, i_m, i_n, M, N, 0, K, K, 1, 1, K, PRECISION, BLOCK)
    o_n = i_n * BLOCK + tl.arange(0, BLOCK)
    b_z += tl.load(bias + o_n, mask=o_n < N, other=0.0).to(tl.float32)[None, :]
    store_tile(z, b_z, i_m, i_n, M, N, BLOCK)
    b_y = tl.maximum(b_z, 0.0) if ACTIVATION == "relu" else 0.5 * b_z * (1.0 + tl.erf(b_z * 0.7071067811865476))
    store_tile(y, b_y, i_m, i_n, M, N, BLOCK)


@triton.jit
def activation_grad_kernel(z, dy, dz, SIZE, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    b_z = tl.load(z + o, mask=o < SIZE, other=0.0)
    b_dy = tl.load(dy + o, mask=o < SIZE, other=0.0).to(tl.float32)
    if ACTIVATION == "relu":
        b_dz = tl.where(b_z > 0.0, b_dy, 0.0)
    else:
        density = 0.3989422804014327 * tl.exp(-0.5 * b_z * b_z)
        b_dz = b_dy * (0.5 * (1.0 + tl.erf(b_z * 0.7071067811865476)) + b_z * density)
    tl.store(dz + o, b_dz.to(dz.dtype.element_ty), mask=o < SIZE)


def product(a: torch.Tensor, b: torch.Tensor, precision: str) -> torch.Tensor:
    """Return a @ b of batches of matrices in any layout."""
    batch, m, k = a.shape
    n = b.shape[2]
    c = torch.empty(batch, m, n, dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, BLOCK) * triton.cdiv(n, BLOCK), batch)
    matmul_kernel[grid](
        a, b, c, m, n, k, *a.stride(), *b.stride(), PRECISION=precision, GROUP=GROUP, BLOCK=BLOCK
    )  # fmt: skip
    return c


def persistent(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty(m, n, dtype=a.dtype, device=a.device)
    tiles = triton.cdiv(m, BLOCK) * triton.cdiv(n, BLOCK)
    multiprocessors = torch.cuda.get_device_properties(a.device).multi_processor_count
    persistent_kernel[(min(tiles, multiprocessors),)](
        a, b, c, m, n, k, *a.stride(), *b.stride(), PRECISION="ieee", BLOCK=BLOCK
    )
    return c


def split_k(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    m, k = a.shape
    n = b.shape[1]
    c = torch.zeros(m, n, dtype=torch.float32, device=a.device)
    per_split = triton.cdiv(triton.cdiv(k, BLOCK), SPLITS) * BLOCK
    grid = (triton.cdiv(m, BLOCK) * triton.cdiv(n, BLOCK), triton.cdiv(k, per_split))
    split_k_kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), per_split, PRECISION="ieee", BLOCK=BLOCK)
    return c.to(a.dtype)


def aligned(x: torch.Tensor) -> torch.Tensor:
    """Return the matrix in rows that begin at a multiple of 16 bytes, as descriptors need, if its width allows."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % 16 else x


def by_descriptors(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    triton.set_allocator(lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device=a.device))
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty(m, n, dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, BLOCK), triton.cdiv(n, BLOCK))
    descriptor_kernel[grid](aligned(a), aligned(b), c, m, n, k, PRECISION="ieee", BLOCK=BLOCK)
    return c


class MatMul(torch.autograd.Function):
    """a @ b of batches; gradients are products with transposed views."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, precision: str) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        ctx.precision = precision
        return product(a, b, precision)

    @staticmethod
    def backward(ctx: Any, dc: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        a, b = ctx.saved_tensors
        return product(dc, b.mT, ctx.precision), product(a.mT, dc, ctx.precision), None


class Plain(torch.autograd.Function):
    """a @ b of two matrices by one of the functions above, backward too."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, multiply: Any) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        ctx.multiply = multiply
        return multiply(a, b)

    @staticmethod
    def backward(ctx: Any, dc: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        a, b = ctx.saved_tensors
        return ctx.multiply(dc, b.mT), ctx.multiply(a.mT, dc), None


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, activation: str) -> torch.Tensor:
        x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
        m, k = x.shape
        n = weight.shape[0]
        y = torch.empty(m, n, dtype=x.dtype, device=x.device)
        z = torch.empty(m, n, dtype=torch.float32, device=x.device)
        grid = (triton.cdiv(m, BLOCK), triton.cdiv(n, BLOCK))
        linear_kernel[grid](x, weight, bias, y, z, m, n, k, ACTIVATION=activation, PRECISION="ieee", BLOCK=BLOCK)
        ctx.save_for_backward(x, weight, z)
        ctx.activation = activation
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        x, weight, z = ctx.saved_tensors
        dz = torch.empty(z.shape, dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(z.numel(), 1024),)
        activation_grad_kernel[grid](z, dy.contiguous(), dz, z.numel(), ACTIVATION=ctx.activation, BLOCK=1024)
        dx = product(dz[None], weight[None], "ieee")[0]
        dw = product(dz.mT[None], x[None], "ieee")[0]
        return dx, dw, dz.sum(0, dtype=torch.float32).to(x.dtype), None


def matmul(a: torch.Tensor, b: torch.Tensor, precision: str = "ieee") -> torch.Tensor:
    return MatMul.apply(a[None], b[None], precision)[0]


def batched_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return MatMul.apply(a, b, "ieee")


def matmul_persistent(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return Plain.apply(a, b, persistent)


def matmul_split_k(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return Plain.apply(a, b, split_k)


def matmul_descriptors(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return Plain.apply(a, b, by_descriptors)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, activation: str) -> torch.Tensor:
    return Linear.apply(x, weight, bias, activation)
