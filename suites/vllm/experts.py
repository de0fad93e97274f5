"""What vLLM does with the results of experts: gather the rows of a token, and add them with its weights."""

from harness.suite import Dim, Draw, DType, groups, integers, op, tensor, width

LIBRARY = {"requires": ("sources:vllm",), "stubs": {"vllm": "vllm_stubs.py"}}
ABSENT = -1
"""The id of no expert, and the place in a map of experts of those on another GPU."""


@op(
    **LIBRARY,
    dims={
        "T": Dim(low=1, high=1200, varies=True, grows=True, largest=1 << 24),
        "K": groups(1, 2, 3, 8),
        "M": Dim(low=1, high=600, grows=True, largest=1 << 22),
        "DB": Dim(low=1, high=16, grows=True, largest=128),
        "E": Dim(low=1, high=32),
    },
    inputs={
        "x": tensor("M", "128*DB", grad=False),
        "experts": integers("T", "K", high="E", ignore=ABSENT),
        "weights": tensor("T", "K", grad=False, dtype=DType.FP32, draw=Draw.SHARES),
        "rows": integers("T", "K", high="M", dtype="int32"),
        "local": integers("E", high="E", ignore=ABSENT, optional=True, dtype="int32"),
        "before": tensor("T", "128*DB", grad=False),
    },
    contiguous="rows",
)
def gathered(x, experts, weights, rows, local, before):
    """The results overwrite what was in the caller's buffer."""
    from vllm.model_executor.layers.fused_moe.deep_gemm_utils import ep_gather

    output = before.clone()
    ep_gather(x, experts, weights, rows, local, output)
    return output


@gathered.reference
def gathered_reference(x, experts, weights, rows, local):
    import torch

    return torch.einsum("tkd,tk->td", x[rows.long()], weights.to(x.dtype) * counts(experts, local))


def counts(experts, local):
    """Return which experts are on this GPU."""
    return experts >= 0 if local is None else (experts >= 0) & (local[experts.clamp(min=0).long()] >= 0)


def results_that_count(experts, local, real, T, K, D):
    """Return a mask of the results of experts: others are stale."""
    mask = real_rows(real, T)[:, None].expand(T, K)
    if experts is not None:
        mask = mask & counts(experts, local)
    return mask[..., None].expand(T, K, D)


def real_rows(real, rows):
    import torch

    return torch.ones(rows, dtype=torch.bool) if real is None else torch.arange(rows) < real


@op(
    **LIBRARY,
    dims={
        "T": Dim(low=1, high=300, varies=True, grows=True, largest=1 << 20),
        "K": groups(1, 2, 3, 8),
        "D": width(1200),
        "E": Dim(low=1, high=32),
    },
    inputs={
        "experts": integers("T", "K", high="E", ignore=ABSENT, optional=True),
        "local": integers("E", high="E", ignore=ABSENT, optional=True, dtype="int32"),
        "real": integers(1, high="T+1", optional=True, dtype="int32"),
        "x": tensor("T", "K", "D", grad=False, defined=results_that_count),
        "weights": tensor("T", "K", grad=False, dtype=DType.FP32, draw=Draw.SHARES),
        "before": tensor("T", "D", grad=False),
    },
    contiguous=True,
    where=lambda at: at["experts"] or not at["local"],
    apart=("T",),
)
def added(x, experts, weights, local, real, before):
    """Rows without an expert, and rows past the real ones, stay as they are."""
    from vllm.model_executor.layers.fused_moe.moe_fused_mul_sum import moe_fused_mul_sum

    return moe_fused_mul_sum(x, weights, before.clone(), experts, local, real)


@added.reference
def added_reference(x, experts, weights, local, real, before):
    import torch

    weights, stored = weights.to(x.dtype), real_rows(real, len(x))
    if experts is not None:
        weights, stored = weights * counts(experts, local), stored & (experts >= 0).any(-1)
    return torch.where(stored[:, None], torch.einsum("tkd,tk->td", x, weights), before)
