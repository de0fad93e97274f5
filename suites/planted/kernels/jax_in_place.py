"""Sums that an autotuned kernel stores in the buffer of one of its inputs."""

import jax
import jax_triton as jt
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 16})]


@triton.autotune(configs=CONFIGS, key=[])
@triton.jit
def sum_kernel(x, y, T, total, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    both = tl.load(x + o, mask=o < T, other=0.0) + tl.load(y + o, mask=o < T, other=0.0)
    tl.store(total + o, both, mask=o < T)


def sum_in_place_of(number: int, x: jax.Array, y: jax.Array) -> jax.Array:
    T = x.shape[0]
    return jt.triton_call(
        x,
        y,
        T,
        kernel=sum_kernel,
        out_shape=x,
        grid=lambda meta: triton.cdiv(T, meta["BLOCK"]),
        input_output_aliases={number: 0},
    )


def in_place_of_x(x: jax.Array, y: jax.Array) -> jax.Array:
    return sum_in_place_of(0, x, y)


def in_place_of_y(x: jax.Array, y: jax.Array) -> jax.Array:
    return sum_in_place_of(1, x, y)
