"""What SGLang's sampler does to probabilities."""

from harness.suite import Draw, DType, integers, op, tensor, tokens, width


@op(
    requires=("sglang",),
    stubs={"sglang": "sglang_stubs.py"},
    dims={"B": tokens(64), "V": width(20_000)},
    inputs={
        "probabilities": tensor("B", "V", grad=False, draw=Draw.SHARES),
        "counts": integers("B", low=1, high="V+2", dtype="int32"),
    },
    dtypes=(DType.FP32,),
    apart=("B",),
)
def likeliest(probabilities, counts):
    """Keep the likeliest tokens of each row, and all that are as likely as the last of them."""
    from sglang.kernels.ops.sampling.renorm_triton import top_k_renorm_probs_triton

    return top_k_renorm_probs_triton(probabilities, counts)


@likeliest.reference
def likeliest_reference(probabilities, counts):
    import torch

    last = (counts.long() - 1).clamp(max=probabilities.shape[1] - 1)[:, None]
    pivot = probabilities.sort(-1, descending=True).values.gather(1, last)
    kept = torch.where(probabilities >= pivot, probabilities, 0.0)
    return kept / kept.sum(-1, keepdim=True)
