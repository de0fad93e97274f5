"""SGLang's product of packed sequences with the first matrices of their LoRA adapters."""

from harness.suite import Dim, groups, integers, op, segments, tensor, tokens, width


def with_tail(bounds, tail, T):
    """Return boundaries behind which some tokens belong to no sequence."""
    return bounds.clamp(max=T - int(tail)).contiguous()


def first(lengths, size):
    import torch

    return torch.arange(size, device=lengths.device) < lengths[..., None]


def adapter_of_tokens(bounds, adapters, T):
    """Return the adapter of each token, and -1 for those of the tail."""
    import torch

    adapter = adapters[: len(bounds) - 1].repeat_interleave(bounds.diff())
    return torch.nn.functional.pad(adapter, (0, T - len(adapter)), value=-1)


def results(adapter, ranks, stack, R):
    """Each token has as many results as its adapter has ranks."""
    return first(stack * ranks[adapter] * (adapter >= 0), 3 * R)


@op(
    requires=("sources:sglang",),
    stubs={"sglang": "../../../suites/sglang/sglang_stubs.py"},
    dims={"T": tokens(300), "N": Dim(low=1, high=6), "L": groups(1, 2, 4), "R": groups(4, 16, 24), "D": width(600)},
    inputs={
        "x": tensor("T", "D", grad=False),
        "weights": tensor("L", "3*R", "D", grad=False),
        "bounds": segments("T", "N", may_be_empty=True, dtype="int32"),
        "tail": integers(1, high="T"),
        "adapters": integers("N", high="L"),
        "ranks": integers("L", high="R+1", dtype="int32"),
    },
    options={"stack": (1, 2, 3)},
)
def first_products(x, weights, bounds, tail, adapters, ranks, stack, R, T):
    from types import SimpleNamespace

    import torch
    from sglang.kernels.ops.lora.dense.sgemm_lora_a import sgemm_lora_a_fwd

    bounds, adapters, ranks = with_tail(bounds, tail, T), adapters.contiguous(), ranks.contiguous()
    adapter = adapter_of_tokens(bounds, adapters, T)
    x = torch.where(first(bounds[-1], T)[:, None], x, torch.nan).contiguous()
    weights = torch.where(first(stack * ranks, 3 * R)[..., None], weights, torch.nan).contiguous()
    lengths = bounds.diff()
    batch = SimpleNamespace(
        bs=len(lengths),
        max_len=int(lengths.max()),
        seg_lens=lengths,
        seg_indptr=bounds,
        weight_indices=adapters,
        lora_ranks=ranks,
        permutation=None,
    )
    return torch.where(results(adapter, ranks, stack, R), sgemm_lora_a_fwd(x, weights, batch, stack), 0.0)


@first_products.reference
def definition(x, weights, bounds, tail, adapters, ranks, stack, R, T):
    import torch

    adapter = adapter_of_tokens(with_tail(bounds, tail, T), adapters, T)
    return torch.where(results(adapter, ranks, stack, R), torch.einsum("td,tnd->tn", x, weights[adapter]), 0.0)
