"""Attention of vLLM on pages of keys and values: one token of a request, new tokens with cached ones, chosen keys."""

from harness.suite import Dim, DType, attention, groups, integers, op, owned, ragged, tensor, tokens

LIBRARY = {"requires": ("sources:vllm",), "stubs": {"vllm": "vllm_stubs.py"}}
ABSENT = -1


def has_keys(lengths, H):
    """Return the rows of requests that have a key; the others pad the batch."""
    mask = (lengths > 0)[:, None].expand(-1, H)
    return mask[..., None], mask


def owned_cells(table, lengths, P, S):
    return owned(table, lengths, P, S)[..., None, None]


@op(
    **LIBRARY,
    dims={
        "B": Dim(low=1, high=4, grows=True, largest=4096),
        "G": groups(1, 2, 3),
        "R": groups(1, 2, 5, 16),
        "D": groups(16, 64, 80, 128),
        "C": groups(0, 16, 64),
        "P": Dim(low=1, high=40, grows=True, largest=1 << 21),
        "S": groups(1, 16, 32, 64),
        "W": Dim(low=1, high=8),
    },
    inputs={
        "q": tensor("B", "G*R", "D+C", grad=False),
        "keys": tensor("P", "S", "G", "D+C", grad=False, defined=owned_cells),
        "values": tensor("P", "S", "G", "D", grad=False, defined=owned_cells),
        "table": integers("B", "W", high="P", dtype="int32"),
        "lengths": integers("B", high="W*S+1", dtype="int32"),
    },
    options={"splits": (1, 2, 4, 8), "logit_cap": (0.0, 20.0), "latent": (False, True)},
    contiguous="rows",
    where=lambda at: not at["latent"] or (at["R"] > 1 and at["G"] == 1),
    defined=lambda lengths, G, R: has_keys(lengths, G * R),
    apart=("B",),
    independent=("B",),
)
def one_token(q, keys, values, table, lengths, splits, logit_cap, latent, S):
    """Latent attention has values that are the first channels of its keys."""
    import torch
    from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd

    width = values.shape[-1]
    if latent:
        values = keys[..., :width]
    output, lse = q.new_zeros(*q.shape[:2], width), q.new_zeros(q.shape[:2])
    parts = q.new_empty((*q.shape[:2], splits, width + 1), dtype=torch.float32)
    scale = q.shape[-1] ** -0.5
    decode_attention_fwd(
        q, keys, values, output, lse, table, lengths, parts, splits, scale, S, logit_cap, is_mla=latent
    )
    return output, lse


@one_token.reference
def one_token_reference(q, keys, values, table, lengths, logit_cap, latent, S, W):
    if latent:
        values = keys[..., : values.shape[-1]]
    k, v = (paged[table.long()].flatten(1, 2) for paged in (keys, values))
    allowed = ragged(lengths, W * S)[:, None, None]
    return tuple(result[:, 0] for result in attention(q[:, None], k, v, allowed=allowed, logit_cap=logit_cap))


def has_choice(chosen, H):
    """All of the output is defined; maxima and sums are where a token has a key."""
    return None, *[(chosen >= 0).any(-1).expand(-1, H)] * 2


@op(
    **LIBRARY,
    dims={
        "T": tokens(8),
        "H": groups(1, 3, 16, 20),
        "N": Dim(low=1, high=100, grows=True, largest=1 << 23),
        "KB": Dim(low=1, high=6),
        "C": groups(0, 64),
    },
    inputs={
        "q": tensor("T", "H", "512+C", grad=False),
        "kv": tensor("N", 1, "512+C", grad=False),
        "chosen": integers("T", 1, "16*KB", high="N", ignore=ABSENT, dtype="int32"),
    },
    dtypes=(DType.BF16,),
    contiguous="rows",
    defined=has_choice,
    apart=("T", "H"),
    independent=("T",),
)
def chosen_keys(q, kv, chosen, C):
    """Each token attends to the keys that an indexer has chosen for it."""
    from vllm.v1.attention.ops.xpu_mla_sparse import triton_bf16_mla_sparse_interface

    return triton_bf16_mla_sparse_interface(q, kv, chosen, q.shape[-1] ** -0.5, d_v=512, block_dpe=C)


@chosen_keys.reference
def chosen_keys_reference(q, kv, chosen):
    import torch

    chosen, kv = chosen[:, 0].long(), kv[:, 0]
    keys = kv[chosen.clamp(min=0)]
    score = torch.einsum("thd,tkd->thk", q, keys) * q.shape[-1] ** -0.5
    score = score.masked_fill((chosen < 0)[:, None], float("-inf"))
    top = score.amax(-1)
    weight = (score - torch.where(top.isinf(), 0.0, top)[..., None]).exp()
    total = weight.sum(-1)
    output = torch.einsum("thk,tkd->thd", weight / torch.where(total > 0, total, 1.0)[..., None], keys[..., :512])
    return output, top, top + total.log()
