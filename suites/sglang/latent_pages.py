"""Latent keys of SGLang on pages: normalised, rotated, and stored with 448 numbers of eight bits and 64 of sixteen.

A page holds the numbers of its tokens first, and then their scales: an exponent for each 64 numbers.
"""

from harness.suite import Dim, Draw, DType, attention, dequantised, groups, integers, op, segments, tensor

WIDTH, PLAIN, ROTATED, GROUP = 512, 448, 64, 64
TOKEN_BYTES = PLAIN + 2 * ROTATED
SCALES = PLAIN // GROUP
EPS = 1e-6


@op(
    requires=("sglang",),
    stubs={"sglang": "sglang_stubs.py"},
    dims={
        "T": Dim(low=1, high=40),
        "H": Dim(low=1, high=3),
        "P": Dim(low=40, high=60),
        "S": Dim(low=1, high=8),
        "L": Dim(low=1, high=50),
    },
    inputs={
        "q": tensor("T", f"{WIDTH}*H", grad=False),
        "kv": tensor("T", WIDTH, grad=False),
        "weight": tensor(WIDTH, grad=False),
        "positions": integers("T", high="L"),
        "cos": tensor("L", ROTATED // 2, grad=False, dtype=DType.FP32, draw=Draw.UNIT),
        "sin": tensor("L", ROTATED // 2, grad=False, dtype=DType.FP32, draw=Draw.UNIT),
        "places": integers("T", high="P*S", distinct=True, dtype="int32"),
    },
    dtypes=(DType.BF16,),
    contiguous=True,
    waives=frozenset({"precision"}),  # a number between two steps of eight bits goes to either
)
def stored_keys(q, kv, weight, positions, cos, sin, places, P, S):
    """The results are the keys in sixteen bits, and what the codes of eight bits stand for on this GPU."""
    import torch
    from sglang.srt.layers.fused_qk_norm_rope_store import fused_qk_norm_rope_swa_store

    kv = kv.clone()
    pages = torch.zeros(P, S * (TOKEN_BYTES + SCALES + 1), dtype=torch.uint8, device=kv.device)
    fused_qk_norm_rope_swa_store(
        q, kv, None, weight, EPS, EPS, ROTATED, cos, sin, positions, pages, places, swa_page_size=S
    )
    values, scales = pages.split((S * TOKEN_BYTES, S * (SCALES + 1)), 1)
    codes = values.reshape(-1, TOKEN_BYTES)[places.long(), :PLAIN].contiguous()
    exponents = scales.reshape(-1, SCALES + 1)[places.long(), :SCALES].float() - 127
    stored = codes.view(eight_bits()).float() * exponents.exp2().repeat_interleave(GROUP, -1)
    return kv[:, :PLAIN], stored.to(kv.dtype)


@stored_keys.reference
def stored_keys_reference(kv, weight):
    import torch

    y = (kv / (kv.square().mean(-1, keepdim=True) + EPS).sqrt() * weight)[:, :PLAIN]
    largest = y.abs().unflatten(-1, (-1, GROUP)).amax(-1).clamp(min=1e-8)
    scales = (largest / torch.finfo(torch.float8_e4m3fn).max).log2().ceil().exp2().repeat_interleave(GROUP, -1)
    return y, (y / scales).to(torch.float8_e4m3fn).to(y.dtype) * scales


@op(
    requires=("sglang",),
    stubs={"sglang": "sglang_stubs.py"},
    dims={
        "T": Dim(low=1, high=6),
        "H": groups(1, 4, 16),
        "P": Dim(low=1, high=6),
        "S": groups(1, 16, 64),
        "K": Dim(low=1, high=80),
    },
    inputs={
        "q": tensor("T", "H", WIDTH, grad=False, draw=Draw.NORMALISED),
        "plain": tensor("P", "S", PLAIN, grad=False, dtype=DType.FP8_E4M3),
        "exponents": integers("P", "S", SCALES, low=118, high=124, dtype="int32"),
        "rotated": tensor("P", "S", ROTATED, grad=False),
        "chosen": integers("T", "K", high="P*S", dtype="int32"),
    },
    dtypes=(DType.BF16,),
    contiguous=True,
    apart=("T",),
)
def chosen_keys(q, plain, exponents, rotated, chosen, P, S):
    """A key is also its value."""
    import torch
    from sglang.srt.layers.attention.nsa.triton_decode import triton_mla_kernels_decode_fused as decode

    codes, factor = in_eight_bits(plain)
    values = torch.cat((codes.view(torch.uint8), rotated.view(torch.uint8)), -1).reshape(P, -1)
    scales = torch.nn.functional.pad(exponents + (factor == 2), (0, 1)).to(torch.uint8).reshape(P, -1)
    pages = torch.cat((values, scales), 1)
    return decode.fused_gather_attn_decode_dsv4(q, pages, chosen, S, WIDTH**-0.5)[0]


@chosen_keys.reference
def chosen_keys_reference(q, plain, exponents, rotated, chosen):
    import torch

    scales = (exponents - 127.0).exp2().to(q.dtype).repeat_interleave(GROUP, -1)
    keys = torch.cat((plain.to(q.dtype) * scales, rotated), -1).flatten(0, 1)
    rows = [attention(row[None], keys[at, None], keys[at, None])[0] for row, at in zip(q, chosen.long(), strict=True)]
    return torch.cat(rows)


@op(
    requires=("sglang",),
    stubs={"sglang": "sglang_stubs.py"},
    dims={
        "T": Dim(low=1, high=6),
        "H": groups(1, 4, 20),
        "G": Dim(low=1, high=4),
        "P": Dim(low=1, high=100),
        "K": Dim(low=1, high=150),
    },
    inputs={
        "q": tensor("T", "H", f"{GROUP}*G", grad=False, draw=Draw.NORMALISED),
        "pool": tensor("P", f"{GROUP}*G", grad=False, dtype=DType.FP8_E4M3),
        "scales": tensor("P", "G", grad=False, dtype=DType.FP32, draw=Draw.SHARES),
        "bounds": segments("K", "T"),
        "chosen": integers("K", high="P", dtype="int32"),
        "sinks": tensor("H", grad=False, dtype=DType.FP32),
    },
    dtypes=(DType.BF16, DType.FP16),
    contiguous=True,
    where=lambda at: at["T"] <= at["K"],
)
def chosen_keys_of_one_pool(q, pool, scales, bounds, chosen, sinks):
    """A key is also its value, and has a scale for each 64 numbers.  AMD's GPUs alone take this path."""
    from sglang.srt.layers.attention.dsv4.unified_kv_kernels.paged_decode import sparse_attn_v4_paged_decode

    pool, factor = in_eight_bits(pool)
    return sparse_attn_v4_paged_decode(q, pool, chosen, bounds, sinks, q.shape[-1] ** -0.5, scales * factor)


@chosen_keys_of_one_pool.reference
def chosen_keys_of_one_pool_reference(q, pool, scales, bounds, chosen, sinks):
    import torch

    rows, keys = [], dequantised(pool, scales, group=GROUP).to(q.dtype)
    for query, at, to in zip(q, bounds.tolist(), bounds[1:].tolist(), strict=False):
        own = keys[chosen[at:to].long(), None]
        output, lse = attention(query[None], own, own)
        rows.append(output * (lse - sinks).sigmoid()[..., None])
    return torch.cat(rows)


def in_eight_bits(numbers):
    """Return the numbers in the format that the GPU has, and the factor that they lack."""
    import torch

    kind = eight_bits()
    return ((numbers.float() / 2).to(kind), 2) if kind == torch.float8_e4m3fnuz else (numbers, 1)


def eight_bits():
    """Return the type of eight bits that the GPU has."""
    import torch
    from sglang.srt.layers.quantization.fp8_kernel import is_fp8_fnuz

    return torch.float8_e4m3fnuz if is_fp8_fnuz() else torch.float8_e4m3fn
