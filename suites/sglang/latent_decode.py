"""Attention of SGLang to latent keys, before 0.4.3: one token of each request, with the tables that it had then.

The keys of all heads are one row of 576 numbers, the first 512 of which are the values.
"""

from inspect import signature

from harness.suite import Dim, DType, attention, groups, integers, op, tensor

WIDTH, VALUES, PARTS = 576, 512, 8
SCALE = 192**-0.5


@op(
    requires=("sglang",),
    stubs={"sglang": "sglang_stubs.py"},
    dims={
        "B": Dim(low=1, high=3),
        "H": groups(2, 4, 16),
        "W": Dim(low=1, high=150),
        "P": Dim(low=1, high=200),
    },
    inputs={
        "q": tensor("B", "H", WIDTH, grad=False),
        "keys": tensor("P", 1, WIDTH, grad=False),
        "table": integers("B", "W", high="P", dtype="int32"),
        "lengths": integers("B", low=1, high="W+1", dtype="int32"),
    },
    dtypes=(DType.BF16, DType.FP16),
    contiguous=True,
)
def latent_attention(q, keys, table, lengths, B, H):
    import torch
    from sglang.srt.layers.attention.triton_ops.decode_attention import decode_attention_fwd

    values, requests = keys[..., :VALUES], torch.arange(B, device=q.device)
    output = q.new_empty(B, H, VALUES)
    given = (q, keys, values, output, table, requests)
    if "b_start_loc" in signature(decode_attention_fwd).parameters:
        ends = lengths.cumsum(0)
        scores = q.new_empty(H, int(ends[-1]), dtype=torch.float32)
        decode_attention_fwd(*given, (ends - lengths).int(), lengths, scores, int(lengths.max()), SCALE)
    else:
        parts = q.new_empty(B, H, PARTS, VALUES + 1, dtype=torch.float32)
        decode_attention_fwd(*given, lengths, parts, PARTS, SCALE)
    return output


@latent_attention.reference
def latent_attention_reference(q, keys, table, lengths):
    import torch

    rows = []
    for query, places, length in zip(q, table.long(), lengths.tolist(), strict=True):
        chosen = keys[places[:length]]
        rows.append(attention(query[None], chosen, chosen[..., :VALUES], scale=SCALE)[0])
    return torch.cat(rows)
