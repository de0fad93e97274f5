"""The choice of experts in SGLang: experts that every token has come after its own."""

from harness.suite import Dim, Draw, DType, integers, op, tensor, tokens

LIBRARY = {"requires": ("sglang",), "stubs": {"sglang": "sglang_stubs.py"}}


@op(
    **LIBRARY,
    dims={"T": tokens(1200, grows=False), "K": Dim(low=1, high=9), "S": Dim(low=1, high=4), "E": Dim(low=9, high=300)},
    inputs={
        "experts": integers("T", "K", high="E", distinct="rows", dtype="int32"),
        "weights": tensor("T", "K", grad=False, draw=Draw.SHARES),
    },
    options={"scale": (1.0, 0.4)},
    dtypes=(DType.FP32, DType.BF16),
    contiguous=True,
)
def shared_experts_appended(experts, weights, scale, S, E):
    from sglang.kernels.ops.moe.fused_moe_triton_kernels import fused_append_shared_experts

    return fused_append_shared_experts(experts, weights, S, scale, E)


@shared_experts_appended.reference
def shared_experts_appended_reference(experts, weights, scale, S, E):
    import torch

    shared = (torch.arange(S) + E).expand(len(experts), S)
    return torch.cat((experts, shared), 1).int(), torch.cat((weights, weights.new_full(shared.shape, scale)), 1)
