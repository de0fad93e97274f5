"""Ops that call JAX in every way that its tests need."""

from typing import Any

from harness.suite import DType, beside, jax_call, op, tensor, tokens

JAX = ("jax", "jax-triton")
X = {"x": tensor("T", grad=False)}
XY = {"x": tensor("T"), "y": tensor("T")}
T = {"T": tokens(256, grows=False)}
FP32 = (DType.FP32,)


def kernels() -> Any:
    return beside(__file__, "jax_suite_kernels.py")


@op(dims=T, inputs=X, dtypes=(DType.FP32, DType.BF16), requires=JAX)
def doubled_sum(x: Any) -> Any:
    return jax_call(kernels().doubled_sum, x, x)


@doubled_sum.reference
def _four_times(x: Any) -> Any:
    return 2 * (x + x)


@op(dims=T, inputs=X, dtypes=FP32, requires=JAX)
def past_the_end(x: Any) -> Any:
    return jax_call(kernels().past_the_end, x)


@past_the_end.reference
def _itself(x: Any) -> Any:
    return x.clone()


@op(dims=T, inputs=X, dtypes=FP32, requires=JAX)
def half_written(x: Any) -> Any:
    return jax_call(kernels().half_written, x)


@half_written.reference
def _zero_behind_half(x: Any) -> Any:
    return x.clone()


@op(dims=T, inputs=X, dtypes=FP32, requires=JAX)
def counted(x: Any) -> Any:
    return jax_call(kernels().counted, x)


@counted.reference
def _plus_one(x: Any) -> Any:
    return x + 1


@op(dims=T, inputs=X, dtypes=FP32, requires=JAX)
def chained_in_execution(x: Any) -> Any:
    return jax_call(kernels().chained, x, tuned_while="execution")


@op(dims=T, inputs=X, dtypes=FP32, requires=JAX)
def chained_in_initialisation(x: Any) -> Any:
    return jax_call(kernels().chained, x, tuned_while="initialisation")


@op(dims=T, inputs=X, dtypes=FP32, requires=JAX)
def argument_in_initialisation(x: Any) -> Any:
    import torch

    order = torch.arange(x.shape[0] - 1, -1, -1, dtype=torch.int32)
    return jax_call(kernels().rows, x, order, tuned_while="initialisation")


@chained_in_execution.reference
@chained_in_initialisation.reference
@argument_in_initialisation.reference
def _reversed(x: Any) -> Any:
    return x.flip(0)


@op(dims=T, inputs=XY, dtypes=FP32, requires=JAX)
def with_gradients(x: Any, y: Any) -> Any:
    return jax_call(kernels().product, x, y)


@with_gradients.reference
def _product(x: Any, y: Any) -> Any:
    return x * y


@op(dims=T, inputs=X, dtypes=FP32, requires=JAX)
def with_scratch(x: Any) -> Any:
    return jax_call(kernels().with_scratch, x)


@op(dims=T, inputs=X, dtypes=FP32, requires=JAX)
def uncompilable(x: Any) -> Any:
    return jax_call(kernels().uncompilable, x)


@op(dims=T, inputs=X, dtypes=FP32, requires=JAX)
def outside(x: Any) -> Any:
    kernels().without_a_call()
    return x.clone()


@with_scratch.reference
@uncompilable.reference
@outside.reference
def _same(x: Any) -> Any:
    return x.clone()
