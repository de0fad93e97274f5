"""vLLM's attention of one token of each request to keys and values in pages."""

from harness.suite import Dim, groups, integers, op, tensor


def distinct_pages(keys, B, W):
    """Return a table of pages that all differ."""
    return keys.argsort()[: B * W].view(B, W).int()


def first(lengths, size):
    import torch

    return torch.arange(size, device=lengths.device) < lengths[:, None]


def owned_cells(table, lengths, P, S, W):
    """Return the mask of the cells of pages that hold a key of a request."""
    import torch

    pages = torch.zeros(P, S, dtype=torch.bool, device=table.device)
    pages[table.flatten().long()] = first(lengths, W * S).view(-1, S)
    return pages[..., None, None]


def poisoned(x, mask):
    """Return a copy with gaps between its rows, and with NaN in the cells that must not be read."""
    import torch

    copy = x.new_full((*x.shape[:-1], x.shape[-1] + 1), torch.nan)[..., :-1]
    return copy.copy_(torch.where(mask, x, torch.nan))


def with_keys(output, lse, lengths):
    """Return the results with zeros for the requests without a key, whose results are not defined."""
    import torch

    has_keys = (lengths > 0)[:, None]
    return torch.where(has_keys[..., None], output, 0.0), torch.where(has_keys, lse, 0.0)


@op(
    requires=("sources:vllm",),
    stubs={"vllm": "../../../suites/vllm/vllm_stubs.py"},
    dims={
        "B": Dim(low=1, high=4),
        "G": groups(1, 2, 3),
        "R": groups(1, 2, 5, 16),
        "D": groups(16, 64, 80, 128),
        "P": Dim(low=1, high=40),
        "S": groups(1, 16, 32),
        "W": Dim(low=1, high=8),
    },
    inputs={
        "q": tensor("B", "G*R", "D", grad=False),
        "keys": tensor("P", "S", "G", "D", grad=False),
        "values": tensor("P", "S", "G", "D", grad=False),
        "order": integers("P", high=1000),
        "lengths": integers("B", high="W*S+1", dtype="int32"),
    },
    options={"splits": (1, 2, 4, 8), "logit_cap": (0.0, 20.0)},
    where=lambda at: at["B"] * at["W"] <= at["P"],
    apart=("B",),
)
def one_token(q, keys, values, order, lengths, splits, logit_cap, B, P, S, W, D):
    import torch
    from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd

    q, table, lengths = q.contiguous(), distinct_pages(order, B, W), lengths.contiguous()
    owned = owned_cells(table, lengths, P, S, W)
    keys, values = poisoned(keys, owned), poisoned(values, owned)
    output, lse = q.new_zeros(q.shape), q.new_zeros(q.shape[:2])
    parts = q.new_empty((*q.shape[:2], splits, D + 1), dtype=torch.float32)
    decode_attention_fwd(q, keys, values, output, lse, table, lengths, parts, splits, D**-0.5, S, logit_cap)
    return with_keys(output, lse, lengths)


@one_token.reference
def definition(q, keys, values, order, lengths, logit_cap, B, S, W, R, D):
    import torch

    table = distinct_pages(order, B, W).long()
    k, v = (paged[table].flatten(1, 2).repeat_interleave(R, 2) for paged in (keys, values))
    score = torch.einsum("bhd,bkhd->bhk", q, k) * D**-0.5
    if logit_cap:
        score = logit_cap * (score / logit_cap).tanh()
    score = score.masked_fill(~first(lengths, W * S)[:, None], -torch.inf)
    top = score.amax(-1, keepdim=True)
    weight = (score - top).exp()
    total = weight.sum(-1, keepdim=True)
    output, lse = torch.einsum("bhk,bkhd->bhd", weight / total, v), (top + total.log())[..., 0]
    return with_keys(output, lse, lengths)
