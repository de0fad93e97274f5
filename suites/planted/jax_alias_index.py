"""Planted: jax-triton 0.3.1 passes the index of an output where jaxlib reads that of a buffer: nothing is restored."""

from harness.suite import DType, beside, jax_call, op, tensor, tokens

ORACLE = "float64-values"
SMALLEST = {"T": 1}

INPUTS = {"x": tensor("T", grad=False), "y": tensor("T", grad=False)}
JAX = ("jax", "jax-triton")


@op(dims={"T": tokens(256, grows=False)}, inputs=INPUTS, dtypes=(DType.FP32,), requires=JAX)
def jax_alias_index(x, y):
    return jax_call(beside(__file__, "kernels/jax_in_place.py").in_place_of_y, x, y, aliases="buffers")


@op(dims={"T": tokens(256, grows=False)}, inputs=INPUTS, dtypes=(DType.FP32,), requires=JAX)
def jax_alias_index_repaired(x, y):
    return jax_call(beside(__file__, "kernels/jax_in_place.py").in_place_of_y, x, y, aliases="outputs")


@jax_alias_index.reference
@jax_alias_index_repaired.reference
def total(x, y):
    return x + y
