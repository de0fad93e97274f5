"""Attention of vLLM on pages that are laid out for AMD's GPUs."""

from harness.suite import Dim, DType, groups, integers, op, tensor


def owned(table, lengths, S, P):
    """Return the places on pages that hold keys; others are stale."""
    import torch

    mask = torch.zeros(P, S, dtype=torch.bool)
    for pages, length in zip(table.long(), lengths.tolist(), strict=True):
        at = torch.arange(length)
        mask[pages[at // S], at % S] = True
    return mask


def owned_keys(table, lengths, S, P, G, D, X):
    return owned(table, lengths, S, P)[:, None, None, :, None].expand(P, G, D // X, S, X)


def owned_values(table, lengths, S, P, G, D):
    return owned(table, lengths, S, P)[:, None, None].expand(P, G, D, S)


PAGES = {
    "requires": ("sources:vllm",),
    "stubs": {"vllm": "vllm_stubs.py"},
    "dims": {
        "B": Dim(low=1, high=4),
        "G": groups(1, 2),
        "R": groups(1, 2, 5),
        "D": groups(32, 64, 128),
        "X": groups(8),
        "S": groups(16, 32, 64),
        "W": Dim(low=1, high=4),
        "P": Dim(low=16, high=24),
    },
    "inputs": {
        "q": tensor("B", "G*R", "D", grad=False),
        "table": integers("B", "W", high="P", distinct=True, dtype="int32"),
        "lengths": integers("B", low=1, high="W*S+1", dtype="int32"),
        "keys": tensor("P", "G", "D//X", "S", "X", grad=False, defined=owned_keys),
        "values": tensor("P", "G", "D", "S", grad=False, defined=owned_values),
        "slopes": tensor("G*R", grad=False, optional=True, dtype=DType.FP32),
        "sinks": tensor("G*R", grad=False, optional=True),
    },
    "dtypes": (DType.BF16, DType.FP16),
    "contiguous": True,
    "apart": ("B",),
}


@op(**PAGES)
def one_token(q, table, lengths, keys, values, slopes, sinks, B):
    """Each request has one token, whose key is on the pages."""
    return attended(q, table, lengths, keys, values, slopes, sinks, 0, B)


@one_token.reference
def one_token_reference(q, table, lengths, keys, values, slopes, sinks):
    return definition(q, table, lengths, keys, values, slopes, sinks, 0)


@op(**PAGES, options={"window": (7, 40)})
def one_token_in_a_window(q, table, lengths, keys, values, slopes, sinks, window, B):
    return attended(q, table, lengths, keys, values, slopes, sinks, window, B)


@one_token_in_a_window.reference
def one_token_in_a_window_reference(q, table, lengths, keys, values, slopes, sinks, window):
    return definition(q, table, lengths, keys, values, slopes, sinks, window)


def attended(q, table, lengths, keys, values, slopes, sinks, window, B):
    import torch
    from vllm.v1.attention.ops.chunked_prefill_paged_decode import chunked_prefill_paged_decode

    output, one = torch.zeros_like(q), q.new_ones((), dtype=torch.float32)
    bounds = torch.arange(B + 1, device=q.device, dtype=torch.int32)
    new, most = q[:, : keys.shape[1]], int(lengths.max())
    given = (q, new, new, output, "auto", keys, values, table, bounds, lengths, most, 1, one, one)
    chunked_prefill_paged_decode(*given, alibi_slopes=slopes, sliding_window=window, sinks=sinks)
    return output


def definition(q, table, lengths, keys, values, slopes, sinks, window):
    import torch

    rows = []
    for request, pages, length in zip(q, table.long(), lengths.tolist(), strict=True):
        shared = len(request) // keys.shape[1]
        k = keys[pages].permute(0, 3, 1, 2, 4).flatten(3).flatten(0, 1)[:length].repeat_interleave(shared, 1)
        v = values[pages].permute(0, 3, 1, 2).flatten(0, 1)[:length].repeat_interleave(shared, 1)
        score = torch.einsum("hd,khd->hk", request, k) * q.shape[-1] ** -0.5
        back = torch.arange(length) - (length - 1)
        if slopes is not None:
            score = score + slopes.to(score.dtype)[:, None] * back
        if window:
            score = score.masked_fill(back <= -window, float("-inf"))
        if sinks is not None:
            score = torch.cat((score, sinks.to(score.dtype)[:, None]), 1)
        weight = (score - score.amax(-1, keepdim=True)).exp()
        weight = (weight / weight.sum(-1, keepdim=True))[:, :length]
        rows.append(torch.einsum("hk,khd->hd", weight, v))
    return torch.stack(rows)
