"""Planted: a kernel computes addresses from an input that JAX has not produced yet when jaxlib tunes the kernel."""

from harness.suite import DType, beside, jax_call, op, tensor, tokens

ORACLE = "bounds"
SMALLEST = {"T": 2}  # a single row needs no operation: its order is a constant

X = {"x": tensor("T", grad=False)}
JAX = ("jax", "jax-triton")


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,), requires=JAX)
def jax_tuned_early(x):
    return jax_call(beside(__file__, "kernels/jax_tuned_rows.py").reversed_rows, x, tuned_while="initialisation")


@op(dims={"T": tokens(256, grows=False)}, inputs=X, dtypes=(DType.FP32,), requires=JAX)
def jax_tuned_early_repaired(x):
    return jax_call(beside(__file__, "kernels/jax_tuned_rows.py").reversed_rows, x, tuned_while="execution")


@jax_tuned_early.reference
@jax_tuned_early_repaired.reference
def reversed_rows(x):
    return x.flip(0)
