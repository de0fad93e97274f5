"""Zoo: windows along an axis.  Definitions unfold the windows."""

from harness.suite import Dim, beside, op, tensor, tokens, width

KERNELS = "kernels/pooling.py"


@op(
    dims={"C": tokens(64, grows=False), "L": Dim(low=3, high=512)},
    inputs={"x": tensor("C", "L")},
    options={"window": (2, 3), "stride": (1, 2)},
)
def max_pool(x, window, stride):
    return beside(__file__, KERNELS).max_pool(x, window, stride)


@max_pool.reference
def max_pool_reference(x, window, stride):
    import torch

    values, places = x.unfold(-1, window, stride).max(-1)
    return values, places + stride * torch.arange(places.shape[-1])


@op(
    dims={"C": tokens(32, grows=False), "H": Dim(low=3, high=64), "W": Dim(low=3, high=64)},
    inputs={"x": tensor("C", "H", "W")},
    options={"window": (2, 3)},
)
def mean_pool(x, window):
    return beside(__file__, KERNELS).mean_pool(x, window)


@mean_pool.reference
def mean_pool_reference(x, window):
    return x.unfold(1, window, window).unfold(2, window, window).mean((-2, -1))


@op(
    dims={"B": Dim(low=1, high=4), "T": tokens(128, grows=False, long=0), "D": width(256), "W": Dim(low=1, high=4)},
    inputs={"x": tensor("B", "T", "D"), "weight": tensor("D", "W"), "bias": tensor("D")},
    apart=("B", "D"),
)
def causal_convolution(x, weight, bias):
    return beside(__file__, KERNELS).convolve(x, weight, bias)


@causal_convolution.reference
def causal_convolution_reference(x, weight, bias):
    import torch

    tokens, window = x.shape[1], weight.shape[1]
    padded = torch.nn.functional.pad(x, (0, 0, window - 1, 0))
    return bias + sum(padded[:, i : i + tokens] * weight[:, i] for i in range(window))


@op(
    dims={"C": tokens(64, grows=False), "L": width(256), "N": width(512)},
    inputs={"x": tensor("C", "L", grad=False)},
)
def interpolation(x, N):
    return beside(__file__, KERNELS).interpolate(x, N)


@interpolation.reference
def interpolation_reference(x, N):
    import torch

    at = torch.arange(N, dtype=torch.float64) * (x.shape[-1] - 1) / max(N - 1, 1)
    left = at.floor().long()
    share = (at - left).to(x.dtype)
    right = (left + 1).clamp(max=x.shape[-1] - 1)
    return x[:, left] * (1 - share) + x[:, right] * share
