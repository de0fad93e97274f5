"""Zoo: scans along rows and along tokens."""

from harness.suite import Dim, Draw, beside, op, tensor, tokens, width

KERNELS = "kernels/scans.py"
GRID = 2**31 - 1
"""The limit of programs along x, of which each row takes one."""
ROWS = {"T": Dim(low=1, high=256, grows=True, largest=GRID), "D": width(512)}
SEQUENCES = {"B": Dim(low=1, high=4), "T": tokens(64, grows=False, long=0), "D": width(64)}


@op(dims=ROWS, inputs={"x": tensor("T", "D")})
def cumsum(x):
    return beside(__file__, KERNELS).cumsum(x)


@cumsum.reference
def cumsum_reference(x):
    return x.cumsum(-1)


@op(dims=ROWS, inputs={"x": tensor("T", "D", grad=False)})
def prefix_max(x):
    return beside(__file__, KERNELS).cummax(x)


@prefix_max.reference
def prefix_max_reference(x):
    return x.cummax(-1).values


@op(dims={"T": Dim(low=1, high=128, grows=True, largest=GRID), "D": width(128)}, inputs={"x": tensor("T", "D")})
def log_cumsum_exp(x):
    return beside(__file__, KERNELS).log_cumsum_exp(x)


@log_cumsum_exp.reference
def log_cumsum_exp_reference(x):
    return x.exp().cumsum(-1).log()


@op(
    dims=SEQUENCES,
    inputs={"a": tensor("B", "T", "D", draw=Draw.UNIT), "b": tensor("B", "T", "D")},
    apart=("B", "D"),
)
def linear_recurrence(a, b):
    return beside(__file__, KERNELS).recurrence(a, b)


@linear_recurrence.reference
def linear_recurrence_reference(a, b):
    import torch

    states = [b[:, 0]]
    for t in range(1, b.shape[1]):
        states.append(a[:, t] * states[-1] + b[:, t])
    return torch.stack(states, dim=1)


@op(dims=SEQUENCES, inputs={"x": tensor("B", "T", "D")}, options={"decay": (0.5, 0.99)}, apart=("B", "D"))
def moving_average(x, decay):
    return beside(__file__, KERNELS).moving_average(x, decay)


@moving_average.reference
def moving_average_reference(x, decay):
    import torch

    averages = [(1 - decay) * x[:, 0]]
    for t in range(1, x.shape[1]):
        averages.append(decay * averages[-1] + (1 - decay) * x[:, t])
    return torch.stack(averages, dim=1)
