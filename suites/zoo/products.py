"""Zoo: matrix products with accumulators of float32."""

from harness.suite import DType, beside, op, tensor, tokens, width

KERNELS = "kernels/products.py"
MATRICES = {
    "dims": {"M": tokens(256, grows=False), "N": width(128), "K": width(256)},
    "inputs": {"a": tensor("M", "K"), "b": tensor("K", "N")},
}


@op(**MATRICES)
def matmul(a, b):
    return beside(__file__, KERNELS).matmul(a, b)


@op(**MATRICES, dtypes=(DType.FP32,))
def matmul_tf32(a, b):
    return beside(__file__, KERNELS).matmul(a, b, "tf32")


@op(**MATRICES)
def matmul_persistent(a, b):
    return beside(__file__, KERNELS).matmul_persistent(a, b)


@op(dims={"M": width(64), "N": width(64), "K": width(1024)}, inputs=MATRICES["inputs"])
def matmul_split_k(a, b):
    return beside(__file__, KERNELS).matmul_split_k(a, b)


# Descriptors need rows whose bytes are a multiple of 16.
@op(
    dims={"M": tokens(32, grows=False), "N": width(16), "K": width(32)},
    inputs={"a": tensor("8*M", "8*K"), "b": tensor("8*K", "8*N")},
)
def matmul_descriptors(a, b):
    return beside(__file__, KERNELS).matmul_descriptors(a, b)


@op(
    dims={"B": tokens(8, grows=False), "M": width(64), "N": width(64), "K": width(128)},
    inputs={"a": tensor("B", "M", "K"), "b": tensor("B", "K", "N")},
    apart=("B",),
)
def batched_matmul(a, b):
    return beside(__file__, KERNELS).batched_matmul(a, b)


@matmul.reference
@matmul_tf32.reference
@matmul_persistent.reference
@matmul_split_k.reference
@matmul_descriptors.reference
@batched_matmul.reference
def product(a, b):
    return a @ b


LAYER = {
    "dims": {"T": tokens(256, grows=False), "N": width(128), "K": width(128)},
    "inputs": {"x": tensor("T", "K"), "weight": tensor("N", "K"), "bias": tensor("N")},
}


@op(**LAYER)
def linear_gelu(x, weight, bias):
    return beside(__file__, KERNELS).linear(x, weight, bias, "gelu")


@linear_gelu.reference
def linear_gelu_reference(x, weight, bias):
    z = x @ weight.mT + bias
    return 0.5 * z * (1 + (z / 2**0.5).erf())


@op(**LAYER)
def linear_relu(x, weight, bias):
    return beside(__file__, KERNELS).linear(x, weight, bias, "relu")


@linear_relu.reference
def linear_relu_reference(x, weight, bias):
    return (x @ weight.mT + bias).relu()
