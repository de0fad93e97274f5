"""Flex attention as Inductor compiles it, with drawn masks and modifications of scores, forward and backward.

`mask` and `score` choose from the tables below; `window` is the width of the mask, in rows.
"""

# ruff: noqa: ARG001 - torch calls masks and modifications with batch, head, row and column

from harness.suite import Dim, compiled, groups, op, tensor

MASKS = ("none", "causal", "window", "prefix", "blocks")
SCORES = ("none", "distance", "soft cap", "alibi")


def allowed(mask, window):
    """Return the mask as a function of batch, head, row and column; None for no mask."""

    def causal(b, h, row, column):
        return row >= column

    def near(b, h, row, column):
        return (row - column <= window) & (column - row <= window)

    def prefix(b, h, row, column):
        return (column < window) | (row >= column)

    def blocks(b, h, row, column):
        return row // window == column // window

    return {"causal": causal, "window": near, "prefix": prefix, "blocks": blocks}.get(mask)


def modified(score):
    """Return the modification of scores as a function of score, batch, head, row and column; None for none."""
    import torch

    def distance(value, b, h, row, column):
        return value + (row - column) / 64

    def soft_cap(value, b, h, row, column):
        return 2 * torch.tanh(value / 2)

    def alibi(value, b, h, row, column):
        return value - (h + 1) / 8 * abs(row - column)

    return {"distance": distance, "soft cap": soft_cap, "alibi": alibi}.get(score)


@op(
    dims={
        "B": groups(1, 2),
        "H": groups(1, 2),
        "T": Dim(low=1, high=200),
        "S": Dim(low=1, high=200),
        "D": groups(16, 32, 64),
        "window": Dim(low=1, high=64),
    },
    inputs={"q": tensor("B", "H", "T", "D"), "k": tensor("B", "H", "S", "D"), "v": tensor("B", "H", "S", "D")},
    options={"mask": MASKS, "score": SCORES},
    where=lambda at: at["mask"] in {"none", "prefix"} or at["T"] == at["S"],
)
def flex_attention(q, k, v, T, S, window, mask, score):
    from torch.nn.attention.flex_attention import create_block_mask
    from torch.nn.attention.flex_attention import flex_attention as attention

    function = allowed(mask, window)
    blocks = None if function is None else create_block_mask(function, None, None, T, S, device=q.device)

    def program(q, k, v):
        return attention(q, k, v, score_mod=modified(score), block_mask=blocks)

    return compiled(program)(q, k, v)


@flex_attention.reference
def _(q, k, v, T, S, window, mask, score):
    import torch

    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    heads = torch.arange(q.shape[1])[:, None, None]
    rows, columns = torch.arange(T)[:, None], torch.arange(S)[None, :]
    modify, function = modified(score), allowed(mask, window)
    if modify is not None:
        scores = modify(scores, 0, heads.to(scores.dtype), rows.to(scores.dtype), columns.to(scores.dtype))
    if function is not None:
        scores = scores.masked_fill(~function(0, heads, rows, columns), float("-inf"))
    return torch.softmax(scores, -1) @ v
