"""Kernels whose products use tensor memory on sm_100, for `test_tensor_memory`."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN201, N803, PLR0917
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportArgumentType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportOperatorIssue=false, reportAttributeAccessIssue=false

import triton
import triton.language as tl


@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr, OUT: tl.constexpr, TURNED: tl.constexpr):
    """c = a @ b.T; of a turned product both operands are stored along K first."""
    row, column, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BLOCK)
    total = tl.zeros((M, N), OUT)
    for k in range(0, K, BLOCK):
        at = k + depth
        if TURNED:
            left = tl.load(a + at[:, None] * M + row[None, :]).T
            right = tl.load(b + at[:, None] * N + column[None, :])
        else:
            left = tl.load(a + row[:, None] * K + at[None, :])
            right = tl.load(b + column[:, None] * K + at[None, :]).T
        total = tl.dot(left, right, total, out_dtype=OUT)
    tl.store(c + row[:, None] * N + column[None, :], total)


@triton.jit
def two_products(a, b, v, c, M: tl.constexpr, N: tl.constexpr):
    """c = half(a @ b.T / 8) @ v: the left operand of the second product lies in tensor memory."""
    row, column = tl.arange(0, M), tl.arange(0, N)
    scores = tl.dot(tl.load(a + row[:, None] * N + column[None, :]), tl.load(b + column[None, :] * N + column[:, None]))
    weights = (scores * 0.125).to(tl.float16)
    total = tl.dot(weights, tl.load(v + column[:, None] * N + column[None, :]))
    tl.store(c + row[:, None] * N + column[None, :], total)


@triton.jit
def scaled_product(
    a, a_scale, b, b_scale, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
    A_PACKED: tl.constexpr, B_PACKED: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    row, column, group = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // GROUP)
    left_at, right_at = tl.arange(0, K // A_PACKED), tl.arange(0, K // B_PACKED)
    left = tl.load(a + row[:, None] * (K // A_PACKED) + left_at[None, :])
    right = tl.load(b + column[:, None] * (K // B_PACKED) + right_at[None, :])
    left_scale = tl.load(a_scale + row[:, None] * (K // GROUP) + group[None, :])
    right_scale = tl.load(b_scale + column[:, None] * (K // GROUP) + group[None, :])
    total = tl.dot_scaled(left, left_scale, A, right.T, right_scale, B)
    tl.store(c + row[:, None] * N + column[None, :], total)


@triton.jit
def product_with_copied_scales(a, a_scale, b, b_scale, c, K, N: tl.constexpr):
    """`tcgen05.cp` brings the scales to tensor memory; in global memory they have the order that it needs."""
    row, column = tl.arange(0, 128), tl.arange(0, N)
    left = tl.make_tensor_descriptor(a, [128, K], [K, 1], [128, 128])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [N, 128])
    left_scale = tl.make_tensor_descriptor(a_scale, [1, K // 128, 2, 256], [4 * K, 512, 256, 1], [1, 1, 2, 256])
    right_scale = tl.make_tensor_descriptor(
        b_scale, [N // 128, K // 128, 2, 256], [4 * K, 512, 256, 1], [N // 128, 1, 2, 256]
    )
    total = tl.zeros((128, N), tl.float32)
    for k in tl.range(0, K, 128, num_stages=3):
        own = left_scale.load([0, k // 128, 0, 0]).reshape(1, 1, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(128, 4)
        other = right_scale.load([0, k // 128, 0, 0]).reshape(N // 128, 1, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(N, 4)
        total = tl.dot_scaled(left.load([0, k]), own, "e4m3", right.load([0, k]).T, other, "e4m3", total)
    tl.store(c + row[:, None] * N + column[None, :], total)


@triton.jit
def attention(q, k, v, o, n, IN_PARTITIONS: tl.constexpr):
    block = tl.program_id(0) * 128
    query = tl.make_tensor_descriptor(q, [n, 64], [64, 1], [128, 64]).load([block, 0])
    keys = tl.make_tensor_descriptor(k, [n, 64], [64, 1], [64, 64])
    values = tl.make_tensor_descriptor(v, [n, 64], [64, 1], [64, 64])
    largest, norm = tl.full((128,), -float("inf"), tl.float32), tl.zeros((128,), tl.float32)
    total = tl.zeros((128, 64), tl.float32)
    for at in tl.range(0, n, 64, warp_specialize=IN_PARTITIONS):
        scores = tl.dot(query, keys.load([at, 0]).T) * 0.25
        larger = tl.maximum(largest, tl.max(scores, 1))
        powers, shrinks = tl.math.exp2(scores - larger[:, None]), tl.math.exp2(largest - larger)
        norm = norm * shrinks + tl.sum(powers, 1)
        total = tl.dot(powers.to(tl.float16), values.load([at, 0]), total * shrinks[:, None])
        largest = larger
    result = tl.make_tensor_descriptor(o, [n, 64], [64, 1], [128, 64])
    result.store([block, 0], (total / norm[:, None]).to(tl.float16))
