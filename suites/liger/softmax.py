"""Softmax and sparsemax of Liger-Kernel."""

from harness.suite import op, tensor, tokens, width

LIBRARY = ("liger-kernel",)
ROWS = {"dims": {"T": tokens(2048), "D": width(8192)}, "inputs": {"x": tensor("T", "D")}}


@op(requires=LIBRARY, **ROWS, independent=("T",))
def softmax(x):
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    return LigerSoftmaxFunction.apply(x)


@softmax.reference
def softmax_reference(x):
    raised = (x - x.detach().amax(-1, keepdim=True)).exp()
    return raised / raised.sum(-1, keepdim=True)


@op(requires=LIBRARY, **ROWS, independent=("T",))
def sparsemax(x):
    from liger_kernel.ops.sparsemax import LigerSparsemaxFunction

    return LigerSparsemaxFunction.apply(x, -1)


@sparsemax.reference
def sparsemax_reference(x):
    """The nearest point of the simplex: elements minus a threshold, cut off at zero, which sum to one."""
    descending = x.detach().sort(-1, descending=True).values
    excess = descending.cumsum(-1) - 1
    count = descending.new_ones(descending.shape).cumsum(-1)
    above = (descending * count > excess).sum(-1, keepdim=True).clamp(min=1)
    chosen = x.detach() > (excess / count).gather(-1, above - 1)
    support = chosen.to(x.dtype)
    threshold = ((x * support).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
    return (x - threshold) * support
