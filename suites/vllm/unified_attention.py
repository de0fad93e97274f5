"""The unified attention of vLLM in Triton, at decoding: one query of each request, on pages of keys and values."""

from harness.suite import Dim, DType, attention, groups, integers, op, owned, ragged, tensor

LIBRARY = {"requires": ("sources:vllm",), "stubs": {"vllm": "vllm_stubs.py"}}
SEGMENTS = 16
"""Parts of the keys of a request, where there are few requests; as vLLM's backend sets it."""
FEWEST_PROGRAMS = 128
"""With as many programs the keys of a request are not split; as vLLM's backend sets it."""


def owned_cells(table, lengths, P, S):
    return owned(table, lengths, P, S)[..., None, None]


@op(
    **LIBRARY,
    dims={
        "B": Dim(low=1, high=40),
        "G": groups(8, 4),
        "R": groups(1, 2),
        "D": groups(64, 128),
        "P": Dim(low=1, high=40),
        "S": groups(16, 32),
        "W": Dim(low=1, high=8),
    },
    inputs={
        "q": tensor("B", "G*R", "D", grad=False),
        "keys": tensor("P", "S", "G", "D", grad=False, defined=owned_cells),
        "values": tensor("P", "S", "G", "D", grad=False, defined=owned_cells),
        "table": integers("B", "W", high="P", dtype="int32"),
        "lengths": integers("B", low=1, high="W*S+1", dtype="int32"),
    },
    dtypes=(DType.BF16, DType.FP16),
    contiguous=True,
    independent=("B",),
)
def unified_attention_of_one_token(q, keys, values, table, lengths, D):
    import torch
    from vllm.v1.attention.ops.triton_unified_attention import unified_attention

    requests, heads = q.shape[:2]
    output = torch.empty_like(q)
    parts = q.new_empty((requests, heads, SEGMENTS, D), dtype=torch.float32)
    peaks, sums = (q.new_empty((requests, heads, SEGMENTS), dtype=torch.float32) for _ in range(2))
    unified_attention(
        q=q,
        k=keys,
        v=values,
        out=output,
        cu_seqlens_q=torch.arange(requests + 1, dtype=torch.int32, device=q.device),
        max_seqlen_q=1,
        seqused_k=lengths,
        max_seqlen_k=int(lengths.max()),
        softmax_scale=D**-0.5,
        causal=True,
        window_size=(-1, -1),
        block_table=table,
        softcap=0,
        q_descale=None,
        k_descale=None,
        v_descale=None,
        seq_threshold_3D=FEWEST_PROGRAMS // keys.shape[2],
        num_par_softmax_segments=SEGMENTS,
        softmax_segm_output=parts,
        softmax_segm_max=peaks,
        softmax_segm_expsum=sums,
        kv_quant_mode=0,
    )
    return output


@unified_attention_of_one_token.reference
def unified_attention_of_one_token_reference(q, keys, values, table, lengths, W, S):
    k, v = (paged[table.long()].flatten(1, 2) for paged in (keys, values))
    allowed = ragged(lengths, W * S)[:, None, None]
    return attention(q[:, None], k, v, allowed=allowed)[0][:, 0]
