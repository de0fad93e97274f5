"""Programs from PyTorch's tracker that Inductor compiles wrongly, up to torch 2.14 at least.

Each overwrites an input of the program, which needs no gradient.
"""

from harness.suite import compiled, op, tensor, tokens, width

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


@op(dims={"T": tokens(512, grows=False), "D": width(512)}, inputs={"x": MATRIX})
def put_then_flipped(x):
    """pytorch#198270: the copy back into x is fused with a read of x at other rows."""
    return compiled(doubled_and_flipped)(x)


@op(dims={"T": tokens(512, grows=False), "D": width(512)}, inputs={"x": MATRIX, "y": MATRIX})
def scatter_then_zero(x, y):
    """pytorch#198094: the result of the scatter is put into x, which is cleared afterwards."""
    return compiled(scattered_and_cleared)(x, y)


put_then_flipped.reference(doubled_and_flipped)
scatter_then_zero.reference(scattered_and_cleared)
