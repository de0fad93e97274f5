"""Products of SGLang whose tiles host code picks from a table for each GPU and shape of weights.

Some tables of products in eight bits, for Hopper, split K among programs or swap the factors.
"""

from harness.suite import Dim, Draw, DType, beside, config_tables, dequantised, groups, integers, op, tensor

LIBRARY = {"requires": ("sglang",), "stubs": {"sglang": "sglang_stubs.py"}, "contiguous": True}
SIMILAR = {"NVIDIA_A800-SXM4-80GB": "a100", "NVIDIA_H20": "h200", "NVIDIA_L20Y": "h100", "NVIDIA_L40": "l40s"}
"""GPUs with tables, by devices of the same architecture and shared memory."""
SCALES = {"grad": False, "dtype": DType.FP32, "draw": Draw.POSITIVE}
ROWS_OF_BLOCKS, BLOCKS_OF_ROW = "(N + BN - 1)//BN", "(K + BK - 1)//BK"
DIMS = {
    "BN": groups(128, 32),
    "BK": groups(128, 32),
    "M": Dim(low=1, high=300, varies=True),
    "N": Dim(low=1, high=600),
    "K": Dim(low=1, high=1200),
}
OPTIONS = {"output_dtype": ("bfloat16", "float16")}


def inputs(factor):
    return {
        "x": tensor("M", "K", grad=False, dtype=factor),
        "w": tensor("N", "K", grad=False, dtype=factor),
        "x_scales": tensor("M", BLOCKS_OF_ROW, **SCALES),
        "w_scales": tensor(ROWS_OF_BLOCKS, BLOCKS_OF_ROW, **SCALES),
    }


def tables(of):
    name = f"configs/N={{N}},K={{K}},device_name={{device}},dtype={of}_w8a8,block_shape=[{{BN}}, {{BK}}].json"
    return config_tables(name, nearest="M", devices=SIMILAR)


@op(
    **LIBRARY,
    dims=DIMS,
    inputs=inputs(DType.FP8_E4M3),
    options=OPTIONS,
    host_configs={"sglang.kernels.ops.gemm.fp8_kernel:get_w8a8_block_fp8_configs": tables("fp8")},
    where=lambda at: at["BN"] == at["BK"],
    dtypes=(DType.FP32,),
)
def scaled_product(x, w, x_scales, w_scales, output_dtype, BN, BK):
    import torch
    from sglang.kernels.ops.gemm.fp8_kernel import w8a8_block_fp8_matmul_triton

    return w8a8_block_fp8_matmul_triton(x, w, x_scales, w_scales, [BN, BK], getattr(torch, output_dtype))


@op(
    **LIBRARY,
    dims=DIMS,
    inputs=inputs(DType.INT8),
    options=OPTIONS,
    host_configs={"sglang.kernels.ops.gemm.int8_kernel:get_w8a8_block_int8_configs": tables("int8")},
    where=lambda at: at["BN"] == at["BK"],
    dtypes=(DType.FP32,),
)
def scaled_product_of_integers(x, w, x_scales, w_scales, output_dtype, BN, BK):
    import torch
    from sglang.kernels.ops.gemm.int8_kernel import w8a8_block_int8_matmul

    return w8a8_block_int8_matmul(x, w, x_scales, w_scales, [BN, BK], getattr(torch, output_dtype))


@scaled_product.reference
@scaled_product_of_integers.reference
def product_of_scaled(x, w, x_scales, w_scales, BN, BK):
    return dequantised(x, x_scales, group=BK) @ dequantised(w, w_scales, group=(BN, BK)).T


EXPERTS = {
    "T": Dim(low=1, high=300, varies=True),
    "E": Dim(low=1, high=64),
    "N": Dim(low=1, high=512),
    "K": Dim(low=1, high=256),
    "top": groups(1, 2, 4),
}
CHOICE = {
    "weights": tensor("T", "top", **SCALES | {"draw": Draw.SHARES}),
    "experts": integers("T", "top", high="E", distinct="rows", dtype="int32"),
}
CONFIGS = "sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe_triton_config:get_moe_configs"
"""It looks into the tables of each release of Triton, beginning with the installed one."""
BLOCK = 128


@op(
    **LIBRARY,
    dims=EXPERTS,
    inputs={"x": tensor("T", "K", grad=False), "w": tensor("E", "2*N", "K", grad=False), **CHOICE},
    options={"weighted": (False, True)},
    host_configs={
        CONFIGS: config_tables("configs/*/E={E},N={N},device_name={device}.json", nearest="T", devices=SIMILAR)
    },
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
        "x_scales": tensor("T", f"(K + {BLOCK - 1})//{BLOCK}", **SCALES),
        "w_scales": tensor("E", f"(2*N + {BLOCK - 1})//{BLOCK}", f"(K + {BLOCK - 1})//{BLOCK}", **SCALES),
        **CHOICE,
    },
    options={"weighted": (False, True), "output_dtype": ("bfloat16", "float16")},
    host_configs={
        CONFIGS: config_tables(
            f"configs/*/E={{E}},N={{N}},device_name={{device}},dtype=fp8_w8a8,block_shape=[{BLOCK}, {BLOCK}].json",
            nearest="T",
            devices=SIMILAR,
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
    from sglang.kernels.ops.moe.fused_moe_triton_kernels import invoke_fused_moe_kernel
    from sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe_triton_config import try_get_optimal_moe_config

    (tokens, top), (count, outputs, width) = experts.shape, w.shape
    block_shape = [BLOCK, BLOCK] if scales else None
    picked = try_get_optimal_moe_config(
        w.shape,
        (count, width, outputs // 2),
        top,
        "fp8_w8a8" if scales else None,
        tokens,
        block_shape=block_shape,
    )
    config = {name: value for name, value in picked.items() if name != "USE_TMA"}
    is_aligned = width * w.element_size() % 16 == 0  # as rows are for which tables ask for TMA
    order, of_tiles, rows = beside(__file__, "../vllm/expert_tiles.py").assigned(experts, count, config["BLOCK_SIZE_M"])
    invoke_fused_moe_kernel(
        x,
        w,
        None,
        y,
        *(scales or (None, None)),
        None,
        weights,
        experts,
        order,
        of_tiles,
        rows,
        mul_routed_weight=weighted,
        top_k=top,
        config=config,
        compute_type=tl.bfloat16 if y.dtype == torch.bfloat16 else tl.float16,
        use_fp8_w8a8=scales is not None,
        use_int8_w8a8=False,
        use_int8_w8a16=False,
        use_int4_w4a16=False,
        per_channel_quant=False,
        block_shape=block_shape,
        b_use_tma=picked.get("USE_TMA", False) and is_aligned,
    )
    return y
