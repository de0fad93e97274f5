"""Zoo: losses.  Definitions take logarithms of quotients, as textbooks do."""

from harness.suite import Dim, Draw, beside, integers, op, tensor, width

KERNELS = "kernels/losses.py"
GRID = 2**31 - 1
"""The limit of programs along x, of which each row takes one."""
IGNORED = -100
EPS = 1e-8
DIMS = {"T": Dim(low=1, high=256, grows=True, largest=GRID), "V": width(1024)}
ROWS = {"T": Dim(low=1, high=256, grows=True, largest=GRID), "D": width(512)}
PAIR = {"x": tensor("T", "D"), "y": tensor("T", "D")}


@op(dims=DIMS, inputs={"x": tensor("T", "V"), "labels": integers("T", high="V")})
def cross_entropy(x, labels):
    return beside(__file__, KERNELS).cross_entropy(x, labels)


@cross_entropy.reference
def cross_entropy_reference(x, labels):
    e = (x - x.amax(-1, keepdim=True)).exp()
    p = e / e.sum(-1, keepdim=True)
    return -p.gather(-1, labels[:, None])[:, 0].log()


@op(
    dims=DIMS,
    inputs={"x": tensor("T", "V"), "labels": integers("T", high="V", ignore=IGNORED)},
    options={"smoothing": (0.0, 0.1), "z_loss": (0.0, 1e-3)},
)
def cross_entropy_smoothed(x, labels, smoothing, z_loss):
    return beside(__file__, KERNELS).cross_entropy(x, labels, smoothing=smoothing, z_loss=z_loss, ignored=IGNORED)


@cross_entropy_smoothed.reference
def cross_entropy_smoothed_reference(x, labels, smoothing, z_loss):
    highest = x.amax(-1, keepdim=True)
    lse = highest + (x - highest).exp().sum(-1, keepdim=True).log()
    log_p = x - lse
    counts = labels != IGNORED
    chosen = log_p.gather(-1, (labels * counts)[:, None])[:, 0]
    loss = -(1 - smoothing) * chosen - smoothing * log_p.mean(-1) + z_loss * lse[:, 0].square()
    return loss * counts


@op(
    dims=ROWS,
    inputs={
        "log_p": tensor("T", "D", draw=Draw.LOG_SHARES),
        "target": tensor("T", "D", draw=Draw.SHARES, grad=False),
    },
)
def kl_divergence(log_p, target):
    return beside(__file__, KERNELS).divergence(log_p, target)


@kl_divergence.reference
def kl_divergence_reference(log_p, target):
    return (target.xlogy(target) - target * log_p).sum(-1)


@op(dims=ROWS, inputs=PAIR)
def cosine_loss(x, y):
    return beside(__file__, KERNELS).cosine(x, y, EPS)


@op(dims={"T": Dim(low=1, high=256, grows=True, largest=GRID), "D": width(1)}, inputs=PAIR)
def cosine_loss_of_numbers(x, y):
    return beside(__file__, KERNELS).cosine(x, y, EPS)


@cosine_loss.reference
@cosine_loss_of_numbers.reference
def cosine_loss_reference(x, y):
    lengths = (x.square().sum(-1) + EPS).sqrt() * (y.square().sum(-1) + EPS).sqrt()
    return 1 - (x * y).sum(-1) / lengths


@op(dims=ROWS, inputs={"x": tensor("T", "D"), "target": tensor("T", "D", draw=Draw.UNIT, grad=False)})
def binary_cross_entropy(x, target):
    return beside(__file__, KERNELS).logits_loss(x, target)


@binary_cross_entropy.reference
def binary_cross_entropy_reference(x, target):
    p = x.sigmoid()
    return -(target * p.log() + (1 - target) * (1 - p).log())


@op(dims=ROWS, inputs=PAIR, options={"delta": (1.0, 0.1)})
def huber_loss(x, y, delta):
    return beside(__file__, KERNELS).huber(x, y, delta)


@huber_loss.reference
def huber_loss_reference(x, y, delta):
    import torch

    error = x - y
    outside = delta * (error.abs() - delta / 2)
    return torch.where(error.abs() <= delta, error.square() / 2, outside)
