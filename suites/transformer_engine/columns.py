"""Sums over groups of rows, and padding of scales, of TransformerEngine."""

from itertools import pairwise

from harness.suite import DType, groups, op, segments, tensor, tokens, width

LIBRARY = ("transformer-engine",)
ROWS = {"T": tokens(4096, grows=False), "N": groups(1, 2, 3, 4, 8), "H": width(1024)}
ADDS_ATOMICALLY = frozenset({"repeatability", "order-dependence", "order-invariance"})


@op(
    requires=LIBRARY,
    dims=ROWS,
    inputs={"dy": tensor("T", "H", grad=False), "bounds": segments("T", "N", may_be_empty=True)},
    waives=ADDS_ATOMICALLY,
)
def grouped_bias_gradient(dy, bounds):
    from transformer_engine.pytorch.triton.grouped_dbias_dscales import compute_grouped_dbias

    return compute_grouped_dbias(dy, bounds, len(bounds) - 1)


@grouped_bias_gradient.reference
def grouped_bias_gradient_reference(dy, bounds):
    return summed_by_group(dy, bounds)


@op(
    requires=LIBRARY,
    dims=ROWS,
    inputs={
        "dy": tensor("T", "H", grad=False),
        "scales": tensor("T", grad=False, dtype=DType.FP32),
        "bias": tensor("N", "H", grad=False),
        "bounds": segments("T", "N", may_be_empty=True),
    },
    waives=ADDS_ATOMICALLY,
)
def grouped_bias_and_scale_gradients(dy, scales, bias, bounds):
    from transformer_engine.pytorch.triton.grouped_dbias_dscales import compute_grouped_dbias_dscales

    # The launcher takes every tensor for contiguous, and says so nowhere: `grouped_bias_gradient` shows it.
    given = (one.contiguous() for one in (dy, scales, bias[: len(bounds) - 1], bounds))
    return compute_grouped_dbias_dscales(*given)


@grouped_bias_and_scale_gradients.reference
def grouped_bias_and_scale_gradients_reference(dy, scales, bias, bounds):
    of_row = bias[: len(bounds) - 1].repeat_interleave(bounds.diff(), dim=0)
    return summed_by_group(dy * scales[:, None], bounds), (dy * of_row).sum(1)


def summed_by_group(rows, bounds):
    """Add up the rows of each group; an empty group has zeros."""
    import torch

    return torch.stack([rows[first:last].sum(0) for first, last in pairwise(bounds.tolist())])


@op(
    requires=LIBRARY,
    dims={"M": tokens(2048, grows=False), "N": width(600)},
    inputs={"x": tensor("M", "N", grad=False)},
)
def pad_scales(x):
    """Pad rows to a multiple of 128 and columns to one of 4, with zeros."""
    from transformer_engine.pytorch.triton.pad import pad_columnwise_scale_inv

    return pad_columnwise_scale_inv(x)


@pad_scales.reference
def pad_scales_reference(x, M, N):
    import torch

    return torch.nn.functional.pad(x, (0, -N % 4, 0, -M % 128))
