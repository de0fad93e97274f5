"""vLLM's products of experts with weights of eight bits: scales of blocks, or of channels."""

from harness.suite import Dim, Draw, DType, dequantised, groups, integers, op, ragged, tensor, width

VLLM = {"requires": ("sources:vllm",), "stubs": {"vllm": "../../../suites/vllm/vllm_stubs.py"}}
DIMS = {"E": Dim(low=1, high=4), "M": width(70), "N": width(300), "K": width(300), "Q": groups(32, 64, 128)}
COUNTS = integers("E", high="M+1", dtype="int32", contiguous=True)
SCALES = {"dtype": DType.FP32, "grad": False, "draw": Draw.POSITIVE}


def real_rows(counts, M):
    return ragged(counts, M)[..., None]


def multiply(x, weights, counts, x_scale, weight_scale, block):
    import torch
    import triton.language as tl
    from vllm.model_executor.layers.fused_moe.experts.fused_batched_moe import invoke_moe_batched_triton_kernel

    result = torch.empty(*x.shape[:2], weights.shape[1], dtype=torch.bfloat16, device=x.device)
    tiles = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32}
    formats = block is not None, block is None, False
    settings = tl.bfloat16, x_scale, weight_scale, None, *formats, tiles, False, block
    invoke_moe_batched_triton_kernel(x, weights, result, counts, *settings)
    return result


@op(
    **VLLM,
    dims=DIMS,
    inputs={
        "x": tensor("E", "M", "K", grad=False, defined=real_rows),
        "x_scale": tensor("E", "M", "(K+Q-1)//Q", **SCALES, defined=real_rows),
        "weights": tensor("E", "N", "K"),
        "scale": tensor("E", "(N+Q-1)//Q", "(K+Q-1)//Q", **SCALES),
        "counts": COUNTS,
    },
    dtypes=(DType.FP8_E4M3,),
    defined=real_rows,
)
def blocks(x, x_scale, weights, scale, counts, Q):
    return multiply(x, weights, counts, x_scale, scale, [Q, Q])


@blocks.reference
def blocks_definition(x, x_scale, weights, scale, Q):
    return dequantised(x, x_scale, group=Q) @ dequantised(weights, scale, group=(Q, Q)).mT


@op(
    **VLLM,
    dims=DIMS,
    inputs={
        "x": tensor("E", "M", "K", grad=False, defined=real_rows),
        "weights": integers("E", "N", "K", low=-127, high=128, dtype="int8"),
        "scale": tensor("E", "N", 1, **SCALES),
        "counts": COUNTS,
    },
    dtypes=(DType.BF16,),
    defined=real_rows,
)
def channels(x, weights, scale, counts):
    return multiply(x, weights, counts, None, scale, None)


@channels.reference
def channels_definition(x, weights, scale):
    return x @ dequantised(weights, scale.to(x.dtype)).mT
