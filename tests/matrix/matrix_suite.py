"""A suite of one op, whose kernels have configs that fit everywhere, only on large GPUs, and nowhere."""

from typing import Any

from harness.suite import Dim, DType, op, tensor, tokens

DIMS = {"T": tokens(256, grows=False), "D": Dim(low=64, high=64)}
X = {"x": tensor("T", "D", grad=False)}


@op(dims=DIMS, inputs=X, dtypes=(DType.BF16,))
def product(x: Any) -> Any:
    from tests.matrix.matrix_suite_kernels import product

    return product(x)


@product.reference
def product_reference(x: Any) -> Any:
    return x @ x.T
