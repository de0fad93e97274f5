"""Rows of x in an order that JAX computes, copied in tiles of autotuned size."""

import jax
import jax.numpy as jnp
import jax_triton as jt
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], key=[])
@triton.jit
def rows_kernel(x, order, T, y, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(order + o, mask=o < T, other=0)
    tl.store(y + o, tl.load(x + row, mask=o < T), mask=o < T)


def reversed_rows(x: jax.Array) -> jax.Array:
    T = x.shape[0]
    order = jnp.argsort(-jnp.arange(T, dtype=jnp.int32))  # an operation of the same executable
    return jt.triton_call(x, order, T, kernel=rows_kernel, out_shape=x, grid=lambda meta: triton.cdiv(T, meta["BLOCK"]))
