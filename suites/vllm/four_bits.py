"""Weights of vLLM in NVFP4: two numbers of four bits in each byte, and a scale of eight bits for 16 neighbours."""

from harness.suite import Dim, DType, dequantised, integers, op, tensor

BLOCK = 16


@op(
    requires=("sources:vllm",),
    stubs={"vllm": "vllm_stubs.py"},
    dims={
        "E": Dim(low=1, high=4, grows=True, largest=512),
        "M": Dim(low=1, high=64, grows=True, largest=65_536),
        "KB": Dim(low=1, high=32, grows=True, largest=1024),
    },
    inputs={
        "packed": integers("E", "M", f"{BLOCK // 2}*KB", high=256, dtype="uint8", contiguous=True),
        "scales": tensor("E", "M", "KB", grad=False, dtype=DType.FP8_E4M3, contiguous=True),
        "global_scale": tensor("E", grad=False, dtype=DType.FP32, contiguous=True),
    },
    options={"output_dtype": ("bfloat16", "float16"), "of_experts": (True, False)},
)
def restored_weights(packed, scales, global_scale, output_dtype, of_experts):
    """Weights of all experts with a global scale each, or those of one layer with one global scale."""
    import torch
    from vllm.model_executor.layers.quantization.utils.nvfp4_emulation_utils import dequantize_to_dtype

    if not of_experts:
        packed, scales, global_scale = packed[0], scales[0], global_scale[0]
    return dequantize_to_dtype(packed, scales, global_scale, getattr(torch, output_dtype), BLOCK, swizzle=False)


@restored_weights.reference
def restored_weights_reference(packed, scales, global_scale, of_experts):
    factors = scales.to(global_scale.dtype) * global_scale[:, None, None]
    weights = dequantised(packed, factors, packed="fp4", group=BLOCK)
    return weights if of_experts else weights[0]
