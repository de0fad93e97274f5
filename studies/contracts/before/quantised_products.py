"""vLLM's products of experts with weights of eight bits: scales of blocks, or of channels."""

from harness.suite import Dim, Draw, DType, groups, integers, op, tensor, width

VLLM = {"requires": ("sources:vllm",), "stubs": {"vllm": "../../../suites/vllm/vllm_stubs.py"}}
DIMS = {"E": Dim(low=1, high=4), "M": width(70), "N": width(300), "K": width(300), "Q": groups(32, 64, 128)}
COUNTS = integers("E", high="M+1", dtype="int32")
SCALES = {"dtype": DType.FP32, "grad": False, "draw": Draw.POSITIVE}
NAN_OF_E4M3 = 0x7F


def real_rows(counts, rows):
    import torch

    return (torch.arange(rows, device=counts.device) < counts[:, None])[..., None]


def poisoned(x, counts):
    """Return a copy with gaps between its rows, and with NaN in the rows that must not be read."""
    import torch

    copy = x.new_empty(*x.shape[:-1], x.shape[-1] + 1)[..., :-1].copy_(x)
    pads = ~real_rows(counts, x.shape[1]).expand(x.shape)
    if x.element_size() == 1:
        copy.view(torch.uint8)[pads] = NAN_OF_E4M3
    else:
        copy[pads] = torch.nan
    return copy


def spread(scale, x, rows, columns):
    """Return the scale of each element; one scale is shared by a block."""
    by_row = scale.repeat_interleave(rows, -2)[..., : x.shape[-2], :]
    return by_row.repeat_interleave(columns, -1)[..., : x.shape[-1]]


def multiply(x, weights, counts, x_scale, weight_scale, block):
    import torch
    import triton.language as tl
    from vllm.model_executor.layers.fused_moe.experts.fused_batched_moe import invoke_moe_batched_triton_kernel

    counts = counts.contiguous()
    x, x_scale = poisoned(x, counts), None if x_scale is None else poisoned(x_scale, counts)
    result = torch.empty(*x.shape[:2], weights.shape[1], dtype=torch.bfloat16, device=x.device)
    tiles = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32}
    formats = block is not None, block is None, False
    settings = tl.bfloat16, x_scale, weight_scale, None, *formats, tiles, False, block
    invoke_moe_batched_triton_kernel(x, weights, result, counts, *settings)
    return torch.where(real_rows(counts, x.shape[1]), result, 0.0)


@op(
    **VLLM,
    dims=DIMS,
    inputs={
        "x": tensor("E", "M", "K", grad=False),
        "x_scale": tensor("E", "M", "(K+Q-1)//Q", **SCALES),
        "weights": tensor("E", "N", "K"),
        "scale": tensor("E", "(N+Q-1)//Q", "(K+Q-1)//Q", **SCALES),
        "counts": COUNTS,
    },
    dtypes=(DType.FP8_E4M3,),
)
def blocks(x, x_scale, weights, scale, counts, Q):
    return multiply(x, weights, counts, x_scale, scale, [Q, Q])


@blocks.reference
def blocks_definition(x, x_scale, weights, scale, counts, Q):
    import torch

    x = x.to(x_scale.dtype) * spread(x_scale, x, 1, Q)
    weights = weights.to(scale.dtype) * spread(scale, weights, Q, Q)
    return torch.where(real_rows(counts, x.shape[1]), x @ weights.mT, 0.0)


@op(
    **VLLM,
    dims=DIMS,
    inputs={
        "x": tensor("E", "M", "K", grad=False),
        "weights": integers("E", "N", "K", low=-127, high=128, dtype="int8"),
        "scale": tensor("E", "N", 1, **SCALES),
        "counts": COUNTS,
    },
    dtypes=(DType.BF16,),
)
def channels(x, weights, scale, counts):
    return multiply(x, weights, counts, None, scale, None)


@channels.reference
def channels_definition(x, weights, scale, counts):
    import torch

    weights = weights.to(x.dtype) * scale.to(x.dtype)
    return torch.where(real_rows(counts, x.shape[1]), x @ weights.mT, 0.0)
