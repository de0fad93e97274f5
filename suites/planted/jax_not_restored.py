"""Planted: a kernel stores into an aliased input, which jaxlib is not told to restore after it has tuned the kernel."""

from harness.suite import DType, beside, jax_call, op, tensor, tokens

ORACLE = "float64-values"
SMALLEST = {"T": 1}

INPUTS = {"x": tensor("T", grad=False), "y": tensor("T", grad=False)}
JAX = ("jax", "jax-triton")


@op(dims={"T": tokens(256, grows=False)}, inputs=INPUTS, dtypes=(DType.FP32,), requires=JAX)
def jax_not_restored(x, y):
    return jax_call(beside(__file__, "kernels/jax_in_place.py").in_place_of_x, x, y, aliases="none")


@op(dims={"T": tokens(256, grows=False)}, inputs=INPUTS, dtypes=(DType.FP32,), requires=JAX)
def jax_not_restored_repaired(x, y):
    return jax_call(beside(__file__, "kernels/jax_in_place.py").in_place_of_x, x, y, aliases="buffers")


@jax_not_restored.reference
@jax_not_restored_repaired.reference
def total(x, y):
    return x + y
