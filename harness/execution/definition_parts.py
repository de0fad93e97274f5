"""What definitions of many libraries share: masks of ragged rows and of pages, segments, and attention."""

import torch


def ragged(lengths: torch.Tensor, size: int) -> torch.Tensor:
    """Return the mask of the first places of a new last axis; see `harness.suite.ragged`."""
    return torch.arange(size, device=lengths.device) < lengths[..., None]


def owned(table: torch.Tensor, lengths: torch.Tensor, pages: int, size: int) -> torch.Tensor:
    """Return the mask of the cells of pages that a row of the table uses; see `harness.suite.owned`."""
    used = ragged(lengths, table.shape[-1] * size).view(*table.shape, size).int()
    users = torch.zeros(pages, size, dtype=torch.int32, device=table.device)
    return users.index_put((table.long().clamp(min=0, max=pages - 1),), used, accumulate=True) > 0


def segment_ids(bounds: torch.Tensor, size: int) -> torch.Tensor:
    """Return the segment of each token, and -1 behind the last one; see `harness.suite.segment_ids`."""
    places = torch.arange(size, dtype=bounds.dtype, device=bounds.device)
    segments = torch.searchsorted(bounds.contiguous(), places, right=True) - 1
    return segments.masked_fill(places >= bounds[-1], -1)


def attention(  # noqa: PLR0913 - as `harness.suite` calls it
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float | None = None,
    allowed: torch.Tensor | None = None,
    logit_cap: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the results and the logarithms of sums of exponentials; see `harness.suite.attention`."""
    shared = q.shape[-2] // k.shape[-2]
    k, v = k.repeat_interleave(shared, -2), v.repeat_interleave(shared, -2)
    if not k.shape[-3]:
        return q.new_zeros(*q.shape[:-1], v.shape[-1]), q.new_full(q.shape[:-1], -torch.inf)
    score = torch.einsum("...qhd,...khd->...hqk", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if logit_cap:
        score = logit_cap * (score / logit_cap).tanh()
    if allowed is not None:
        score = score.masked_fill(~allowed, -torch.inf)
    top = score.amax(-1, keepdim=True)
    top = torch.where(top.isinf(), 0.0, top)
    weight = (score - top).exp()
    total = weight.sum(-1, keepdim=True)
    result = torch.einsum("...hqk,...khd->...qhd", weight / torch.where(total > 0, total, 1.0), v)
    return result, (top + total.log())[..., 0].mT
