"""Products of vLLM whose tiles host code picks from tables: one table for each GPU and each shape of weights.

Listed configs are tried on smaller weights with the same remainders, and on numbers of tokens for which host code picks
them.
"""

from harness.suite import Dim, Draw, DType, beside, config_tables, dequantised, groups, integers, op, tensor

LIBRARY = {"requires": ("sources:vllm",), "stubs": {"vllm": "vllm_stubs.py"}, "contiguous": True}
BLOCK = 128
SIMILAR = {
    "NVIDIA_A800-SXM4-80GB": "a100",
    "NVIDIA_H20": "h200",
    "NVIDIA_H20-3e": "h200",
    "NVIDIA_H800": "h100",
    "NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition": "rtx-pro-6000",
}
"""GPUs with tables, by devices of the same architecture and shared memory."""
NEAREST = {"nearest": "T", "devices": SIMILAR}
CONFIGS = "vllm.model_executor.layers.fused_moe.fused_moe:get_moe_configs"
COLUMN_BLOCKS = f"(K + {BLOCK - 1})//{BLOCK}"
EXPERTS = {
    "T": Dim(low=1, high=300, varies=True),
    "E": Dim(low=1, high=64),
    "N": Dim(low=1, high=512),
    "K": Dim(low=1, high=256),
    "top": groups(1, 2, 4),
}


@op(
    **LIBRARY,
    dims={"M": Dim(low=1, high=300, varies=True), "N": Dim(low=1, high=600), "K": Dim(low=1, high=600)},
    inputs={
        "x": tensor("M", "K", grad=False, dtype=DType.FP8_E4M3),
        "w": tensor("N", "K", grad=False, dtype=DType.FP8_E4M3),
        "x_scales": tensor("M", COLUMN_BLOCKS, grad=False, dtype=DType.FP32, draw=Draw.POSITIVE),
        "w_scales": tensor(
            f"(N + {BLOCK - 1})//{BLOCK}",
            COLUMN_BLOCKS,
            grad=False,
            dtype=DType.FP32,
            draw=Draw.POSITIVE,
        ),
    },
    host_configs={
        "vllm.model_executor.layers.quantization.utils.fp8_utils:get_w8a8_block_fp8_configs": config_tables(
            f"configs/N={{N}},K={{K}},device_name={{device}},dtype=fp8_w8a8,block_shape=[{BLOCK},{BLOCK}].json",
            nearest="M",
            devices=SIMILAR,
        )
    },
    options={"output_dtype": ("bfloat16", "float16")},
    dtypes=(DType.FP32,),
)
def scaled_product(x, w, x_scales, w_scales, output_dtype):
    """Both factors have eight bits, with a scale for 128 numbers of x, and for 128 by 128 of w."""
    import torch
    from vllm.model_executor.layers.quantization.utils.fp8_utils import w8a8_triton_block_scaled_mm

    result_type = getattr(torch, output_dtype)
    return w8a8_triton_block_scaled_mm(x, w, x_scales, w_scales, [BLOCK, BLOCK], output_dtype=result_type)


@scaled_product.reference
def scaled_product_reference(x, w, x_scales, w_scales):
    return dequantised(x, x_scales, group=BLOCK) @ dequantised(w, w_scales, group=(BLOCK, BLOCK)).T


@op(
    **LIBRARY,
    dims=EXPERTS,
    inputs={
        "x": tensor("T", "K", grad=False),
        "w": tensor("E", "2*N", "K", grad=False),
        "weights": tensor("T", "top", grad=False, dtype=DType.FP32, draw=Draw.SHARES),
        "experts": integers("T", "top", high="E", distinct="rows", dtype="int32"),
    },
    options={"weighted": (False, True)},
    host_configs={CONFIGS: config_tables("configs/E={E},N={N},device_name={device}.json", **NEAREST)},
    where=lambda at: at["top"] <= at["E"],
    dtypes=(DType.BF16, DType.FP16),
)
def expert_product(x, w, weights, experts, weighted):
    """The first product of experts: each row with the weights of the experts that its token has."""
    return product(x, w, x.new_empty(*experts.shape, w.shape[1]), weights, experts, weighted)


@expert_product.reference
def expert_product_reference(x, w, weights, experts, weighted):
    import torch

    y = torch.einsum("tk,tsnk->tsn", x, w[experts.long()])
    return y * weights.to(y.dtype)[..., None] if weighted else y


@op(
    **LIBRARY,
    dims=EXPERTS,
    inputs={
        "x": tensor("T", "K", grad=False, dtype=DType.FP8_E4M3),
        "w": tensor("E", "2*N", "K", grad=False, dtype=DType.FP8_E4M3),
        "x_scales": tensor("T", COLUMN_BLOCKS, grad=False, dtype=DType.FP32, draw=Draw.POSITIVE),
        "w_scales": tensor(
            "E", f"(2*N + {BLOCK - 1})//{BLOCK}", COLUMN_BLOCKS, grad=False, dtype=DType.FP32, draw=Draw.POSITIVE
        ),
        "weights": tensor("T", "top", grad=False, dtype=DType.FP32, draw=Draw.SHARES),
        "experts": integers("T", "top", high="E", distinct="rows", dtype="int32"),
    },
    options={"weighted": (False, True), "output_dtype": ("bfloat16", "float16")},
    host_configs={
        CONFIGS: config_tables(
            f"configs/E={{E}},N={{N}},device_name={{device}},dtype=fp8_w8a8,block_shape=[{BLOCK},{BLOCK}].json",
            **NEAREST,
        )
    },
    where=lambda at: at["top"] <= at["E"],
    dtypes=(DType.FP32,),
)
def scaled_expert_product(x, w, x_scales, w_scales, weights, experts, weighted, output_dtype):
    """The same with factors of eight bits."""
    import torch

    y = torch.empty(*experts.shape, w.shape[1], dtype=getattr(torch, output_dtype), device=x.device)
    return product(x, w, y, weights, experts, weighted, scales=(x_scales, w_scales))


@scaled_expert_product.reference
def scaled_expert_product_reference(x, w, x_scales, w_scales, weights, experts, weighted):
    factors = dequantised(x, x_scales, group=BLOCK), dequantised(w, w_scales, group=(BLOCK, BLOCK))
    return expert_product_reference(*factors, weights, experts, weighted)


def product(x, w, y, weights, experts, weighted, scales=None):
    """Ask host code for a config, assign rows to tiles of experts, and launch the kernel, as one layer does."""
    import torch
    import triton.language as tl
    from vllm.model_executor.layers.fused_moe.fused_moe import (
        invoke_fused_moe_triton_kernel,
        try_get_optimal_moe_config,
    )

    (tokens, top), (count, outputs, width) = experts.shape, w.shape
    types = ("fp8_w8a8", [BLOCK, BLOCK]) if scales else (None, None)
    config = try_get_optimal_moe_config(w.shape, (count, width, outputs // 2), top, types[0], tokens, types[1])
    invoke_fused_moe_triton_kernel(
        x,
        w,
        y,
        *(scales or (None, None)),
        weights,
        *beside(__file__, "expert_tiles.py").assigned(experts, count, config["BLOCK_SIZE_M"]),
        mul_routed_weight=weighted,
        top_k=top,
        config=config,
        compute_type=tl.bfloat16 if y.dtype == torch.bfloat16 else tl.float16,
        use_fp8_w8a8=scales is not None,
        use_int8_w8a8=False,
        use_int8_w8a16=False,
        use_int4_w4a16=False,
        per_channel_quant=False,
        block_shape=types[1],
    )
    return y
