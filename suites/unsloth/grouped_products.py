"""Products of unsloth for mixtures of experts: each expert's tokens times its weights, in one launch."""

from harness.suite import Dim, groups, integers, op, sizes, tensor

LIBRARY = {"requires": ("unsloth",), "stubs": {"unsloth": "unsloth_stubs.py"}}
DIMS = {
    "T": Dim(low=1, high=200, varies=True),
    "C": groups(1, 2, 4),  # choices of each token
    "E": Dim(low=1, high=8),
    "N": Dim(low=1, high=6),
    "D": Dim(low=1, high=6),
}
WEIGHTS = {
    "weights": tensor("E", "32*N", "32*D", contiguous=True),
    "counts": sizes("E", "T*C", dtype="int32", contiguous=True),
}
PLACES = {"places": integers("T*C", high="T*C", distinct=True, dtype="int32", contiguous=True)}


@op(**LIBRARY, dims=DIMS, inputs={"x": tensor("T*C", "32*D", contiguous=True), **WEIGHTS})
def sorted_rows(x, weights, counts, C):
    """The rows are already in the order of their experts."""
    return multiplied(x, weights, counts, C)


@sorted_rows.reference
def sorted_rows_reference(x, weights, counts):
    return by_expert(x, weights, counts)


@op(**LIBRARY, dims=DIMS, inputs={"x": tensor("T", "32*D", contiguous=True), **WEIGHTS, **PLACES})
def gathered_tokens(x, weights, counts, places, C):
    """Each token goes to as many experts as it has chosen, and its products are in their order."""
    return multiplied(x, weights, counts, C, gather_indices=places, permute_x=True)


@gathered_tokens.reference
def gathered_tokens_reference(x, weights, counts, places, C):
    return by_expert(x[places // C], weights, counts)


@op(**LIBRARY, dims=DIMS, inputs={"x": tensor("T*C", "32*D", contiguous=True), **WEIGHTS, **PLACES})
def scattered_products(x, weights, counts, places, C):
    """The products go back to where their tokens were."""
    return multiplied(x, weights, counts, C, gather_indices=places, permute_y=True, is_first_gemm=False)


@scattered_products.reference
def scattered_products_reference(x, weights, counts, places):
    import torch

    y = by_expert(x, weights, counts)
    return torch.zeros_like(y).index_put((places.long(),), y)


def multiplied(x, weights, counts, choices, **more):
    from unsloth.kernels.moe.grouped_gemm import interface
    from unsloth.kernels.moe.grouped_gemm.kernels import tuning

    configs = {
        "kernel_config_fwd": tuning.KernelConfigForward(),
        "kernel_config_bwd_dX": tuning.KernelConfigBackward_dX(),
        "kernel_config_bwd_dW": tuning.KernelConfigBackward_dW(),
    }
    return interface.grouped_gemm(x, weights, counts, choices, **configs, **more)


def by_expert(rows, weights, counts):
    import torch

    parts = rows.split(counts.tolist())
    return torch.cat([part @ weight.T for part, weight in zip(parts, weights, strict=True)])
