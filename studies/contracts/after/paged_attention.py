"""vLLM's attention of one token of each request to keys and values in pages."""

from harness.suite import Dim, attention, groups, integers, op, owned, ragged, tensor


def owned_cells(table, lengths, P, S):
    return owned(table, lengths, P, S)[..., None, None]


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
        "keys": tensor("P", "S", "G", "D", grad=False, defined=owned_cells),
        "values": tensor("P", "S", "G", "D", grad=False, defined=owned_cells),
        "table": integers("B", "W", high="P", distinct=True, dtype="int32"),
        "lengths": integers("B", high="W*S+1", dtype="int32"),
    },
    options={"splits": (1, 2, 4, 8), "logit_cap": (0.0, 20.0)},
    where=lambda at: at["B"] * at["W"] <= at["P"],
    contiguous="rows",
    defined=lambda lengths: ((lengths > 0)[:, None, None], (lengths > 0)[:, None]),
    apart=("B",),
)
def one_token(q, keys, values, table, lengths, splits, logit_cap, S, D):
    import torch
    from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd

    output, lse = q.new_zeros(q.shape), q.new_zeros(q.shape[:2])
    parts = q.new_empty((*q.shape[:2], splits, D + 1), dtype=torch.float32)
    decode_attention_fwd(q, keys, values, output, lse, table, lengths, parts, splits, D**-0.5, S, logit_cap)
    return output, lse


@one_token.reference
def definition(q, keys, values, table, lengths, logit_cap, S, W):
    k, v = (paged[table.long()].flatten(1, 2) for paged in (keys, values))
    allowed = ragged(lengths, W * S)[:, None, None]
    return tuple(result[:, 0] for result in attention(q[:, None], k, v, allowed=allowed, logit_cap=logit_cap))
