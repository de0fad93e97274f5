"""SGLang's permutation of tokens for experts: from rows with pads between experts to a slab for each, and back."""

from harness.suite import Draw, DType, groups, op, ragged, sizes, tensor, tokens, width

SGLANG = {"requires": ("sources:sglang",), "stubs": {"sglang": "../../../suites/sglang/sglang_stubs.py"}}
DIMS = {"T": tokens(200, grows=False), "E": groups(1, 2, 3, 8), "A": groups(1, 8, 128), "H": width(600)}
COUNTS = sizes("E", "T", surplus=True, dtype="int32")


def real_slots(counts, T):
    return ragged(counts, T)[..., None]


def row_of_slots(counts, A, T):
    """Return the row of each slot: rows of an expert begin at a multiple of A."""
    import torch

    padded = -(-counts // A) * A
    return (padded.cumsum(0) - padded)[:, None] + torch.arange(T)


def real_rows(counts, A, T, E):
    import torch

    return torch.isin(torch.arange(T + E * A), row_of_slots(counts, A, T)[ragged(counts, T)])[:, None]


def ends_of_experts(counts, A, T):
    return row_of_slots(counts, A, T)[:, 0].int() + counts


@op(
    **SGLANG,
    dims=DIMS,
    inputs={
        "x": tensor("T+E*A", "H", defined=real_rows),
        "scales": tensor("T+E*A", "H//128+1", dtype=DType.FP32, draw=Draw.POSITIVE, grad=False, defined=real_rows),
        "counts": COUNTS,
    },
    dtypes=(DType.FP8_E4M3,),
    contiguous="rows",
    defined=lambda counts, T: (real_slots(counts, T), real_slots(counts, T), None),
)
def to_slabs(x, scales, counts, A, E, T):
    from sglang.kernels.ops.moe.ep_moe_kernels import expand_to_masked_slab

    return expand_to_masked_slab(x, scales, ends_of_experts(counts, A, T), E, T, A)


@to_slabs.reference
def to_slabs_definition(x, scales, counts, A, T):
    rows = row_of_slots(counts, A, T).clamp(max=len(x) - 1)
    return x[rows], scales[rows], counts


@op(
    **SGLANG,
    dims=DIMS,
    inputs={
        "slabs": tensor("E", "T", "H", grad=False, defined=real_slots),
        "weights": tensor(
            "T+E*A",
            grad=False,
            dtype=DType.FP32,
            optional=True,
            defined=lambda counts, A, T, E: real_rows(counts, A, T, E)[:, 0],
        ),
        "counts": COUNTS,
    },
    contiguous=True,
    defined=real_rows,
)
def from_slabs(slabs, weights, counts, A, E, T):
    from sglang.kernels.ops.moe.ep_moe_kernels import masked_slab_to_expand

    return masked_slab_to_expand(slabs, ends_of_experts(counts, A, T), T + E * A, A, weights)


@from_slabs.reference
def from_slabs_definition(slabs, weights, counts, A, E, T):
    real, rows = ragged(counts, T), row_of_slots(counts, A, T)
    result = slabs.new_zeros(T + E * A, slabs.shape[-1]).index_put((rows[real],), slabs[real])
    return result if weights is None else result * weights[:, None]
