"""Kernels that vLLM launches on AMD's GPUs alone: caches in AMD's layouts, and weights of four bits."""

from harness.suite import Dim, DType, beside, groups, integers, op, tensor, tokens

LIBRARY = {"requires": ("sources:vllm",), "stubs": {"vllm": "vllm_stubs.py"}}
HALVES = (DType.BF16, DType.FP16)


@op(
    **LIBRARY,
    dims={"M": Dim(low=1, high=200), "KB": Dim(low=1, high=8), "NB": Dim(low=1, high=40), "S": groups(32, 64, 128)},
    inputs={
        "x": tensor("M", "S*KB", grad=False),
        "packed": integers("S*KB", "NB", low=-(2**31), high=2**31, dtype="int32"),
        "scales": tensor("KB", "8*NB", grad=False),
        "zeros": integers("KB", "NB", low=-(2**31), high=2**31, dtype="int32", optional=True),
    },
    dtypes=HALVES,
    contiguous=True,
)
def product_with_four_bits(x, packed, scales, zeros, S):
    """Eight weights of four bits lie in each integer; without zero points, the zero is 8."""
    from vllm.model_executor.kernels.linear.mixed_precision.triton_w4a16 import triton_w4a16_gemm

    return triton_w4a16_gemm(x, packed, scales, zeros, S)


@product_with_four_bits.reference
def product_with_four_bits_reference(x, packed, scales, zeros, S):
    weights = nibbles(packed) - (8 if zeros is None else nibbles(zeros).repeat_interleave(S, 0))
    return x @ (weights.to(x.dtype) * scales.repeat_interleave(S, 0))


def nibbles(packed):
    """Return the eight numbers of four bits in each integer."""
    import torch

    return (packed[..., None].long() >> torch.arange(0, 32, 4) & 15).flatten(-2)


CACHE = {
    **LIBRARY,
    "dims": {
        "T": Dim(low=1, high=60),
        "H": groups(1, 2, 3),
        "D": groups(64, 128),
        "S": groups(16, 64),
        "P": Dim(low=4, high=8),
    },
    "dtypes": HALVES,
    "contiguous": True,
    "where": lambda at: at["T"] <= at["P"] * at["S"],
}


@op(
    **CACHE,
    inputs={
        "k": tensor("T", "H", "D", grad=False),
        "v": tensor("T", "H", "D", grad=False),
        "keys": tensor("P", "H*D*S", grad=False),
        "values": tensor("P", "H*D*S", grad=False),
        "slots": integers("T", high="P*S", distinct=True, ignore=-1),
    },
)
def stored_in_shuffled_cache(k, v, keys, values, slots, H, D, S):
    """Eight neighbours of a head, or of the tokens of a page, lie together.  Tokens without a slot are left out."""
    import torch
    from vllm.v1.attention.backends.rocm_aiter_fa import reshape_and_cache_shuffle_triton

    keys, values = keys.clone(), values.clone()
    one = torch.ones(1, device=k.device)
    pages = (cache.view(-1, S, H, D) for cache in (keys, values))
    reshape_and_cache_shuffle_triton(k, v, *pages, slots, "auto", one, one)
    return keys, values


@stored_in_shuffled_cache.reference
def stored_in_shuffled_cache_reference(k, v, keys, values, slots, H, D, S):
    given = slots >= 0
    page, at = slots[given] // S, slots[given] % S
    keys = keys.clone().view(-1, H, D // 8, S, 8)
    values = values.clone().view(-1, H, S // 8, D, 8)
    keys = keys.permute(0, 3, 1, 2, 4).index_put((page, at), k[given].unflatten(-1, (-1, 8))).permute(0, 2, 3, 1, 4)
    values = values.permute(0, 2, 4, 1, 3).index_put((page, at // 8, at % 8), v[given]).permute(0, 3, 1, 4, 2)
    return keys.flatten(1), values.flatten(1)


@op(
    **CACHE,
    inputs={
        "keys": tensor("P", "S", "H", "D", grad=False),
        "values": tensor("P", "S", "H", "D", grad=False),
        "table": integers(3, "P", high="P", dtype="int32"),
        "lengths": integers(3, high="P*S//2", dtype="int32"),
        "starts": integers(3, high="P//2", dtype="int32"),
    },
)
def gathered_from_cache(keys, values, table, lengths, starts, S):
    """The tokens of three requests, from the beginning of some page on."""
    import torch
    from vllm.v1.attention.backends.rocm_aiter_fa import cp_mha_gather_cache

    starts, bounds = starts * S, torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int()
    of_token = torch.arange(3, device=keys.device, dtype=torch.int32).repeat_interleave(lengths)
    k, v = (cache.new_empty((len(of_token), *cache.shape[2:])) for cache in (keys, values))
    one = torch.ones(1, device=keys.device)
    if len(of_token):
        cp_mha_gather_cache(
            keys,
            values,
            k,
            v,
            table,
            one,
            one,
            bounds,
            of_token,
            starts,
            dequant=False,
            kv_cache_layout="NHD",
            total_tokens=len(of_token),
        )
    return k, v


@gathered_from_cache.reference
def gathered_from_cache_reference(keys, values, table, lengths, starts, S):
    import torch

    rows = [
        (table[n].long()[(start * S + torch.arange(length)) // S], (start * S + torch.arange(length)) % S)
        for n, (length, start) in enumerate(zip(lengths.tolist(), starts.tolist(), strict=True))
    ]
    pages, at = (torch.cat(parts) for parts in zip(*rows, strict=True))
    return keys[pages, at], values[pages, at]


@op(
    **LIBRARY,
    dims={
        "T": tokens(100),
        "H": Dim(low=1, high=6),
        "N": groups(64, 448),
        "R": groups(32, 64),
        "P": Dim(low=1, high=100),
    },
    inputs={
        "x": tensor("T", "H", "N+R", grad=False, contiguous="rows"),
        "positions": integers("T", high="P", contiguous=True),
        "table": tensor("P", "R", grad=False, dtype=DType.FP32, contiguous="rows"),
    },
    dtypes=(DType.BF16,),
    apart=("T",),
)
def rotated_back(x, positions, table, R):
    from vllm.v1.attention.ops.rocm_aiter_mla_sparse import _fused_inverse_rope_gptj

    return _fused_inverse_rope_gptj(x, positions, table, R)


@rotated_back.reference
def rotated_back_reference(x, positions, table, R):
    import torch

    kept, even, odd = x[..., :-R], x[..., -R::2], x[..., 1 - R :: 2]
    cos, sin = table[positions].to(x.dtype)[:, None].chunk(2, -1)
    turned = torch.stack((even * cos + odd * sin, odd * cos - even * sin), -1).flatten(-2)
    return torch.cat((kept, turned), -1)


@op(
    **LIBRARY,
    dims={"T": Dim(low=1, high=100), "W": Dim(low=1, high=300)},
    inputs={
        "indices": integers("T", "W", low=-1, high=1000, dtype="int32"),
        "lengths": integers("T", high="W+1", dtype="int32"),
    },
    options={"limit": (-1, 500)},
    contiguous=True,
    defined=lambda lengths, T, W: (beside(__file__, "amd_kernels.py").first(int(lengths.sum()), T * W), None),
)
def joined_prefixes(indices, lengths, limit):
    """The first indices of each row, one row after the other; those beyond the limit become -1."""
    from vllm.v1.attention.ops.rocm_aiter_mla_sparse import build_ragged_indices_from_dense

    return build_ragged_indices_from_dense(indices, lengths, limit)


def first(count, size):
    import torch

    return torch.arange(size) < count


@joined_prefixes.reference
def joined_prefixes_reference(indices, lengths, limit, W):
    import torch

    kept = indices[torch.arange(W) < lengths[:, None]]
    kept = torch.where((kept >= 0) & (kept < limit), kept, -1) if limit >= 0 else kept
    bounds = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int()
    return torch.nn.functional.pad(kept, (0, indices.numel() - len(kept))), bounds


@op(
    **LIBRARY,
    dims={"T": Dim(low=1, high=60), "D": groups(128, 64), "S": groups(16, 64, 1), "P": Dim(low=1, high=8)},
    inputs={
        "k": tensor("T", "D", grad=False),
        "slots": integers("T", high="P*S", distinct=True),
    },
    options={"powers": (False, True)},
    dtypes=(DType.BF16,),
    contiguous=True,
    where=lambda at: at["T"] <= at["P"] * at["S"],
    waives=frozenset({"precision"}),
)
def through_indexer_cache(k, slots, powers, D, S, P):
    """Keys of eight bits with a scale each go into the pages of a cache, and are gathered from there."""
    import torch
    from vllm.platforms import current_platform
    from vllm.v1.attention.ops import rocm_aiter_mla_sparse as ops

    cache = torch.zeros((P, S, D + 4), dtype=torch.uint8, device=k.device)
    ops.indexer_k_quant_and_cache_triton(k, cache, slots, D, "ue8m0" if powers else None)
    rows = P * S
    stored = torch.empty((rows, D), dtype=current_platform.fp8_dtype(), device=k.device)
    scales = torch.empty((rows, 4), dtype=torch.uint8, device=k.device)
    table = torch.arange(P, dtype=torch.int32, device=k.device)[None]
    bounds = torch.tensor([0, rows], dtype=torch.int32, device=k.device)
    of_token = torch.zeros(rows, dtype=torch.int32, device=k.device)
    ops.cp_gather_indexer_k_quant_cache_triton(cache, stored, scales, table, bounds, of_token)
    return stored.float()[slots] * scales.view(torch.float32)[slots]


@through_indexer_cache.reference
def through_indexer_cache_reference(k, powers):
    import torch

    stubs = beside(__file__, "vllm_stubs.py")
    kind = stubs.PLATFORM.fp8_dtype()
    scale = k.abs().amax(-1, keepdim=True).clamp(min=1e-4) / (224 if kind is torch.float8_e4m3fnuz else 448)
    scale = scale.log2().ceil().exp2() if powers else scale
    return (k / scale).to(kind).to(k.dtype) * scale
