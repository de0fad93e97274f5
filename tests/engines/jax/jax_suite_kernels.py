"""Functions of JAX, and their kernels."""

# Kernels are typed by Triton: their parameters carry no annotations that Python's tools could read.
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ARG001, N803, N806
# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportCallIssue=false

from functools import partial

import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 16})]


@triton.jit
def sum_kernel(x, y, T, total, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    both = tl.load(x + o, mask=o < T, other=0.0) + tl.load(y + o, mask=o < T, other=0.0)
    tl.store(total + o, both, mask=o < T)


@triton.jit
def shifted_kernel(x, T, y, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    one_more = tl.load(x + o, mask=o < T + 1, other=0.0)
    tl.store(y + o, one_more, mask=o < T)


@triton.jit
def half_kernel(x, T, y, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(x + o, mask=o < T, other=0.0), mask=o < T // 2)


@triton.autotune(configs=CONFIGS, key=[])
@triton.jit
def counting_kernel(x, T, y, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + o, tl.load(x + o, mask=o < T, other=0.0) + 1.0, mask=o < T)


@triton.autotune(configs=CONFIGS, key=[])
@triton.jit
def order_kernel(T, order, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(order + o, T - 1 - o, mask=o < T)


@triton.autotune(configs=CONFIGS, key=[])
@triton.jit
def rows_kernel(x, order, T, y, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(order + o, mask=o < T, other=0)
    tl.store(y + o, tl.load(x + row, mask=o < T, other=0.0), mask=o < T)


@triton.jit
def product_kernel(x, y, T, z, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + o, tl.load(x + o, mask=o < T, other=0.0) * tl.load(y + o, mask=o < T, other=0.0), mask=o < T)


@triton.jit
def descriptor_kernel(x, T, y, BLOCK: tl.constexpr):
    rows = tl.make_tensor_descriptor(x, shape=[T], strides=[1], block_shape=[BLOCK])
    o = tl.arange(0, BLOCK)
    tl.store(y + o, rows.load([0]), mask=o < T)


@triton.jit
def refusing_kernel(x, T, y, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 64, "the block is too small")


def blocks(T, meta):
    return triton.cdiv(T, meta["BLOCK"])


def launched(kernel, *given, like, **options):
    T = like.shape[0]
    return jt.triton_call(*given, kernel=kernel, out_shape=like, grid=partial(blocks, T), **options)


def doubled_sum(x, y):
    return 2 * launched(sum_kernel, x, y * 1, x.shape[0], like=x, BLOCK=16)


def past_the_end(x):
    return launched(shifted_kernel, x, x.shape[0], like=x, BLOCK=512)


def half_written(x):
    return launched(half_kernel, x, x.shape[0], like=x, BLOCK=16)


def counted(x):
    return launched(counting_kernel, x, x.shape[0], like=x, zeroed_outputs=(0,))


def rows(x, order):
    return launched(rows_kernel, x, order, x.shape[0], like=x)


def chained(x):
    T = x.shape[0]
    return rows(x, launched(order_kernel, T, like=jax.ShapeDtypeStruct((T,), jnp.int32)))


@jax.custom_vjp
def product(x, y):
    return launched(product_kernel, x, y, x.shape[0], like=x, BLOCK=16)


def product_forward(x, y):
    return product(x, y), (x, y)


def product_backward(kept, gradient):
    x, y = kept
    return product(gradient, y), product(gradient, x)


product.defvjp(product_forward, product_backward)


def with_scratch(x):
    return launched(descriptor_kernel, x, x.shape[0], like=x, BLOCK=16)


def uncompilable(x):
    return launched(refusing_kernel, x, x.shape[0], like=x, BLOCK=16)


def without_a_call():
    return rows(jnp.zeros(4), jnp.zeros(4, jnp.int32))
