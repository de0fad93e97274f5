"""SGLang's product of packed sequences with the first matrices of their LoRA adapters."""

from harness.suite import Dim, groups, integers, op, ragged, segment_ids, segments, tensor, tokens, width


def results(bounds, adapters, ranks, stack, R, T):
    """Each token has as many results as its adapter has ranks."""
    segment = segment_ids(bounds, T)
    return ragged(stack * ranks[adapters[segment]] * (segment >= 0), 3 * R)


@op(
    requires=("sources:sglang",),
    stubs={"sglang": "../../../suites/sglang/sglang_stubs.py"},
    dims={"T": tokens(300), "N": Dim(low=1, high=6), "L": groups(1, 2, 4), "R": groups(4, 16, 24), "D": width(600)},
    inputs={
        "x": tensor("T", "D", grad=False, defined=lambda bounds, T: ragged(bounds[-1], T)[:, None]),
        "weights": tensor(
            "L", "3*R", "D", grad=False, defined=lambda ranks, stack, R: ragged(stack * ranks, 3 * R)[..., None]
        ),
        "bounds": segments("T", "N", may_be_empty=True, tail=True, dtype="int32"),
        "adapters": integers("N", high="L"),
        "ranks": integers("L", high="R+1", dtype="int32"),
    },
    options={"stack": (1, 2, 3)},
    contiguous=True,
    defined=results,
)
def first_products(x, weights, bounds, adapters, ranks, stack):
    from types import SimpleNamespace

    from sglang.kernels.ops.lora.dense.sgemm_lora_a import sgemm_lora_a_fwd

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
    return sgemm_lora_a_fwd(x, weights, batch, stack)


@first_products.reference
def definition(x, weights, bounds, adapters, T):
    import torch

    return torch.einsum("td,tnd->tn", x, weights[adapters[segment_ids(bounds, T)]])
