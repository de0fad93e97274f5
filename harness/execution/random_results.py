"""Random results: whether probabilities explain the indices that a library drew."""

import math

import torch

SURPRISE = 1e-9
"""A right sample is called implausible with at most this probability, for each of two orders."""


def drawn_from(drawn: torch.Tensor, probabilities: torch.Tensor) -> torch.Tensor:
    """Return the drawn indices; -1 for those that cannot be drawn, and for all if together they are implausible.

    If each index comes from its own distribution, then its place in the cumulative distribution, at random within the
    index's own share, is uniform.  That holds in the order of the indices and in the order of their probabilities.  The
    bound of Dvoretzky, Kiefer, Wolfowitz and Massart for the empirical distribution holds for any number of draws.
    """
    shares = probabilities.detach().to(torch.float64).expand(*drawn.shape, probabilities.shape[-1])
    shares = (shares / shares.sum(-1, keepdim=True)).reshape(-1, probabilities.shape[-1])
    indices = drawn.reshape(-1, 1).to(torch.int64)
    in_range = (indices >= 0) & (indices < shares.shape[-1])
    own = shares.gather(1, indices.clamp(0, shares.shape[-1] - 1)) * in_range
    if bool((own > 0).all()) and indices.numel():
        random = torch.rand(own.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        before = (shares * (torch.arange(shares.shape[-1]) < indices)).sum(-1, keepdim=True)
        rarer = (shares * (shares < own)).sum(-1, keepdim=True)
        as_rare = (shares * (shares == own)).sum(-1, keepdim=True)
        if not (_is_uniform(before + random * own) and _is_uniform(rarer + random * as_rare)):
            own = torch.zeros_like(own)
    return torch.where(own > 0, indices, -1).reshape(drawn.shape).to(drawn.dtype)


def _is_uniform(values: torch.Tensor) -> bool:
    ordered, count = values.reshape(-1).sort().values, values.numel()
    steps = torch.arange(count + 1, dtype=torch.float64) / count
    distance = max(float((steps[1:] - ordered).max()), float((ordered - steps[:-1]).max()))
    return distance <= math.sqrt(math.log(2 / SURPRISE) / (2 * count))
