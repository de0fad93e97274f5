"""Zoo: softmax of rows.  Definitions by quotient, with and without the maximum, and by masks of -1e30."""

from harness.suite import Dim, Draw, beside, integers, op, tensor, width

KERNELS = "kernels/softmax.py"
GRID = 2**31 - 1
"""The limit of programs along x, of which each row takes one."""
ROWS = {
    "dims": {"T": Dim(low=1, high=512, grows=True, largest=GRID), "D": width(1024)},
    "inputs": {"x": tensor("T", "D")},
}
ONLINE = {
    "dims": {"T": Dim(low=1, high=256, grows=True, largest=GRID), "D": width(2048)},
    "inputs": {"x": tensor("T", "D")},
}
FAR_BELOW = -1e30


@op(**ROWS)
def softmax(x):
    return beside(__file__, KERNELS).softmax(x)


@softmax.reference
def softmax_by_quotient(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


@op(dims=ROWS["dims"], inputs={"x": tensor("T", "D", draw=Draw.UNIT)})
def softmax_unshifted(x):
    return beside(__file__, KERNELS).softmax(x, shifted=False)


@softmax_unshifted.reference
def softmax_without_maximum(x):
    e = x.exp()
    return e / e.sum(-1, keepdim=True)


@op(dims={"T": ROWS["dims"]["T"], "D": Dim(low=1, high=2)}, inputs=ROWS["inputs"])
def softmax_narrow(x):
    return beside(__file__, KERNELS).softmax(x)


softmax_narrow.reference(softmax_by_quotient)


@op(**ROWS)
def softmax_against_logsumexp(x):
    return beside(__file__, KERNELS).softmax(x)


@softmax_against_logsumexp.reference
def softmax_by_logsumexp(x):
    return (x - x.logsumexp(-1, keepdim=True)).exp()


@op(**ONLINE)
def softmax_online(x):
    return beside(__file__, KERNELS).softmax_online(x)


softmax_online.reference(softmax_by_quotient)


@op(dims=ROWS["dims"], inputs={"x": tensor("T", "D"), "lengths": integers("T", high="D + 1")})
def softmax_masked(x, lengths):
    return beside(__file__, KERNELS).softmax_masked(x, lengths)


@softmax_masked.reference
def softmax_masked_reference(x, lengths):
    import torch

    columns = torch.arange(x.shape[-1])
    return softmax_by_quotient(torch.where(columns < lengths[:, None], x, FAR_BELOW))


@op(**ONLINE)
def log_softmax(x):
    return beside(__file__, KERNELS).softmax_online(x, log=True)


@log_softmax.reference
def log_softmax_reference(x):
    z = x - x.amax(-1, keepdim=True)
    return z - z.exp().sum(-1, keepdim=True).log()


@op(**ONLINE)
def logsumexp(x):
    return beside(__file__, KERNELS).logsumexp(x)


@logsumexp.reference
def logsumexp_reference(x):
    return x.exp().sum(-1).log()


@op(**ROWS)
def sum_of_softmax(x):
    return beside(__file__, KERNELS).softmax(x).float().sum(-1)


@sum_of_softmax.reference
def sum_of_softmax_reference(x):
    return softmax_by_quotient(x).sum(-1)
