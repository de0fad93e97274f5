"""Programs that Inductor of torch 2.13.0 compiles wrongly.

The first two are from PyTorch's tracker.  They overwrite an input, which needs no gradient.  The others were found by
`programs.py`.
"""

from harness.suite import DType, compiled, integers, op, tensor, tokens, width

DIMS = {"T": tokens(512, grows=False), "D": width(512)}
MATRIX = tensor("T", "D", grad=False)


def doubled_and_flipped(x):
    import torch

    x.index_put_((torch.arange(x.shape[0], device=x.device),), x * 2)
    x.add_(x.flip(0))
    return x


def scattered_and_cleared(x, y):
    import torch

    scattered = torch.slice_scatter(x, y[1:], dim=0, start=0, end=x.shape[0] - 1)
    x.zero_()
    return scattered


def doubled_and_added(x, index):
    doubled = x * 2
    return doubled.index_put((index,), doubled, accumulate=True)


def largest_probability(x):
    import torch

    return torch.softmax(x, -1).amax(-1)


@op(dims=DIMS, inputs={"x": MATRIX})
def put_then_flipped(x):
    """pytorch#198270: the copy back into x is fused with a read of x at other rows."""
    return compiled(doubled_and_flipped)(x)


@op(dims=DIMS, inputs={"x": MATRIX, "y": MATRIX})
def scatter_then_zero(x, y):
    """pytorch#198094: the result of the scatter is put into x, which is cleared afterwards."""
    return compiled(scattered_and_cleared)(x, y)


@op(dims=DIMS, inputs={"x": tensor("T", "D"), "index": integers("T", high="T")})
def put_into_itself(x, index):
    """The result of an `index_put` shares the buffer of the values that are still to be added."""
    return compiled(doubled_and_added)(x, index)


@op(dims=DIMS, inputs={"x": tensor("T", "D")}, dtypes=(DType.BF16, DType.FP16))
def peak(x):
    """Backward compares a rounded maximum with probabilities in float32: none is equal, and 0/0 is NaN."""
    return compiled(largest_probability)(x)


put_then_flipped.reference(doubled_and_flipped)
scatter_then_zero.reference(scattered_and_cleared)
put_into_itself.reference(doubled_and_added)
peak.reference(largest_probability)
