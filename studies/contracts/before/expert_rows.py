"""SGLang's permutation of tokens for experts: from rows with pads between experts to a slab for each, and back."""

from harness.suite import Draw, DType, groups, integers, op, segments, tensor, tokens, width

SGLANG = {"requires": ("sources:sglang",), "stubs": {"sglang": "../../../suites/sglang/sglang_stubs.py"}}
DIMS = {"T": tokens(200, grows=False), "E": groups(1, 2, 3, 8), "A": groups(1, 8, 128), "H": width(600)}
ROUTED = {"bounds": segments("T", "E", may_be_empty=True, dtype="int32"), "surplus": integers(1, high="T+1")}
NAN_OF_E4M3 = 0x7F


def counts_of(bounds, surplus, E, T):
    """Return the tokens of each expert; the surplus belongs to none."""
    import torch

    counts = bounds.clamp(max=T - int(surplus)).diff()
    return torch.nn.functional.pad(counts, (0, E - len(counts)))


def real_slots(counts, T):
    import torch

    return (torch.arange(T, device=counts.device) < counts[:, None])[..., None]


def row_of_slots(counts, A, T):
    """Return the row of each slot: rows of an expert begin at a multiple of A."""
    import torch

    padded = -(-counts // A) * A
    return (padded.cumsum(0) - padded)[:, None] + torch.arange(T, device=counts.device)


def real_rows(counts, A, T, E):
    import torch

    rows = row_of_slots(counts, A, T)[real_slots(counts, T)[..., 0]]
    return torch.isin(torch.arange(T + E * A, device=counts.device), rows)[:, None]


def ends_of_experts(counts, A, T):
    return row_of_slots(counts, A, T)[:, 0].int() + counts


def poisoned(x, mask):
    """Return a copy with gaps between its rows, and with NaN in the cells that must not be read."""
    import torch

    copy = x.new_empty(*x.shape[:-1], x.shape[-1] + 1)[..., :-1].copy_(x)
    pads = ~mask.expand(x.shape)
    if x.element_size() == 1:
        copy.view(torch.uint8)[pads] = NAN_OF_E4M3
    else:
        copy[pads] = torch.nan
    return copy


def without(x, mask):
    """Return the tensor with zeros in the cells that are not defined."""
    import torch

    if x.element_size() == 1:
        return torch.where(mask, x.view(torch.uint8), 0).view(x.dtype)
    return torch.where(mask, x, 0.0)


@op(
    **SGLANG,
    dims=DIMS,
    inputs={
        "x": tensor("T+E*A", "H"),
        "scales": tensor("T+E*A", "H//128+1", dtype=DType.FP32, draw=Draw.POSITIVE, grad=False),
        **ROUTED,
    },
    dtypes=(DType.FP8_E4M3,),
)
def to_slabs(x, scales, bounds, surplus, A, E, T):
    from sglang.kernels.ops.moe.ep_moe_kernels import expand_to_masked_slab

    counts = counts_of(bounds, surplus, E, T)
    rows, slots = real_rows(counts, A, T, E), real_slots(counts, T)
    x, scales = poisoned(x, rows), poisoned(scales, rows)
    slabs, scales, stored_counts = expand_to_masked_slab(x, scales, ends_of_experts(counts, A, T), E, T, A)
    return without(slabs, slots), without(scales, slots), stored_counts


@to_slabs.reference
def to_slabs_definition(x, scales, bounds, surplus, A, E, T):
    counts = counts_of(bounds, surplus, E, T)
    rows, slots = row_of_slots(counts, A, T).clamp(max=len(x) - 1), real_slots(counts, T)
    return without(x[rows], slots), without(scales[rows], slots), counts


@op(
    **SGLANG,
    dims=DIMS,
    inputs={
        "slabs": tensor("E", "T", "H", grad=False),
        "weights": tensor("T+E*A", grad=False, dtype=DType.FP32, optional=True),
        **ROUTED,
    },
)
def from_slabs(slabs, weights, bounds, surplus, A, E, T):
    from sglang.kernels.ops.moe.ep_moe_kernels import masked_slab_to_expand

    counts = counts_of(bounds, surplus, E, T)
    rows, slots = real_rows(counts, A, T, E), real_slots(counts, T)
    slabs = poisoned(slabs, slots).contiguous()
    weights = None if weights is None else poisoned(weights, rows[:, 0]).contiguous()
    return without(masked_slab_to_expand(slabs, ends_of_experts(counts, A, T), T + E * A, A, weights), rows)


@from_slabs.reference
def from_slabs_definition(slabs, weights, bounds, surplus, A, E, T):
    counts = counts_of(bounds, surplus, E, T)
    real, rows = real_slots(counts, T)[..., 0], row_of_slots(counts, A, T)
    result = slabs.new_zeros(T + E * A, slabs.shape[-1]).index_put((rows[real],), slabs[real])
    return result if weights is None else result * weights[:, None]
