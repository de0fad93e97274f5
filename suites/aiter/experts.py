"""Mixtures of experts of aiter: the order of tokens, the products of experts, and the choice of experts."""

from harness.suite import Dim, Draw, DType, beside, groups, integers, op, tensor, tokens, width

LIBRARY = {"requires": ("amd-aiter",), "stubs": {"aiter": "aiter_stubs.py"}}
CHOICE = {"T": Dim(low=1, high=200), "E": Dim(low=2, high=40), "K": Dim(low=1, high=4)}


def chosen_by_fewer(at):
    return at["K"] <= at["E"]


def aligned(ids, experts, block):
    """Return the tokens in the order of experts, padded to blocks, the expert of each block, and their number."""
    import torch
    from aiter.ops.triton.moe.moe_align_block_size import moe_align_block_size_triton

    most = ids.numel() + experts * (block - 1)
    order = torch.full((most,), ids.numel(), dtype=torch.int32, device=ids.device)
    of_block = torch.zeros((-(-most // block),), dtype=torch.int32, device=ids.device)
    count = torch.empty((1,), dtype=torch.int32, device=ids.device)
    moe_align_block_size_triton(ids, experts, block, order, of_block, count)
    return order, of_block, count


@op(
    **LIBRARY,
    dims=CHOICE,
    inputs={"ids": integers("T", "K", high="E", distinct="rows", dtype="int32")},
    options={"block": (16, 64, 128)},
    contiguous=True,
    where=chosen_by_fewer,
)
def order_of_tokens(ids, block, E):
    return aligned(ids, E, block)


@order_of_tokens.reference
def order_of_tokens_reference(ids, block, E):
    import torch

    flat = ids.flatten().long()
    counts = torch.bincount(flat, minlength=E)
    blocks = -(-counts // block)
    starts = (blocks.cumsum(0) - blocks) * block
    by_expert = flat.argsort(stable=True)
    within = torch.arange(len(flat)) - (counts.cumsum(0) - counts)[flat[by_expert]]
    most = len(flat) + E * (block - 1)
    order = torch.full((most,), len(flat))
    order[starts[flat[by_expert]] + within] = by_expert
    of_block = torch.zeros(-(-most // block), dtype=torch.long)
    of_block[: int(blocks.sum())] = torch.arange(E).repeat_interleave(blocks)
    return order.int(), of_block.int(), (blocks.sum() * block).reshape(1).int()


EXPERTS = {
    **LIBRARY,
    "dims": {**CHOICE, "T": Dim(low=1, high=100), "E": Dim(low=2, high=8), "N": width(150), "D": width(200)},
    "dtypes": (DType.BF16, DType.FP16),
    "contiguous": True,
    "where": chosen_by_fewer,
}
IDS = integers("T", "K", high="E", distinct="rows", dtype="int32")
SHARES = tensor("T", "K", draw=Draw.SHARES, grad=False, dtype=DType.FP32)
CONFIG = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 4}


def routed(module, function, x, w, ids, shares, y, *, persistent, weighted=True, **tiles):
    """Call one of the products of experts, which share their arguments."""
    import importlib

    import triton.language as tl

    launcher = importlib.import_module(f"aiter.ops.triton.moe.{module}")
    launcher.moe_set_use_persistent_kernel(persistent)
    config = {**CONFIG, **tiles}
    order, of_block, count = aligned(ids, len(w), config["BLOCK_SIZE_M"])
    kind = tl.bfloat16 if str(x.dtype) == "torch.bfloat16" else tl.float16
    types = {"use_fp8_w8a8": False, "use_int8_w8a16": False, "use_int4_w4a16": False}
    given = (x, w, y, None, None, None, shares, ids, order, of_block, count, weighted, ids.shape[1], kind)
    getattr(launcher, function)(*given, **types, config=config)
    return y


def of_experts(x, w, ids):
    """Return the products of each token with the weights of its experts."""
    import torch

    masks = torch.nn.functional.one_hot(ids.long(), len(w)).to(x.dtype)
    return torch.einsum("tke,td,end->tkn", masks, x, w)


@op(
    **EXPERTS,
    inputs={
        "x": tensor("T", "D", grad=False),
        "w": tensor("E", "N", "D", grad=False),
        "ids": IDS,
        "shares": SHARES,
    },
    options={"persistent": (False, True), "weighted": (True, False)},
)
def products_of_experts(x, w, ids, shares, persistent, weighted):
    y = x.new_zeros((*ids.shape, w.shape[1]))
    return routed("moe_op", "fused_moe", x, w, ids, shares, y, persistent=persistent, weighted=weighted)


@products_of_experts.reference
def products_of_experts_reference(x, w, ids, shares, weighted):
    y = of_experts(x, w, ids)
    return y * shares[..., None].to(x.dtype) if weighted else y


@op(
    **EXPERTS,
    inputs={
        "x": tensor("T", "D", grad=False),
        "w": tensor("E", "2*N", "D", grad=False),
        "ids": IDS,
        "shares": SHARES,
    },
    options={"persistent": (False, True)},
)
def gated_products_of_experts(x, w, ids, shares, persistent):
    y = x.new_zeros((ids.numel(), w.shape[1] // 2))
    return routed("moe_op_silu_fused", "fused_moe_silu", x, w, ids, shares, y, persistent=persistent, weighted=False)


@gated_products_of_experts.reference
def gated_products_of_experts_reference(x, w, ids):
    gate, up = of_experts(x, w, ids).flatten(0, 1).chunk(2, -1)
    return beside(__file__, "rows.py").activated(gate, "silu") * up


@op(
    **LIBRARY,
    dims={"T": tokens(200), "E": groups(16, 64, 128), "D": groups(64, 128, 256)},
    inputs={"x": tensor("T", "D", grad=False), "w": tensor("D", "E", grad=False)},
    dtypes=(DType.BF16, DType.FP16),
    options={"shared": (False, True)},
    refuses=("FileNotFoundError",),  # no config for the architecture
)
def best_expert(x, w, shared):
    """The expert with the largest sigmoid of a product, and the shared one."""
    from aiter.ops.triton.moe.moe_routing_sigmoid_top1_fused import routing_sigmoid_top1

    ids, shares = routing_sigmoid_top1(x, w, 1, fused_shared_experts=shared)
    return shares, (x.float() @ w.float()).gather(-1, ids[:, :1].long().clamp(0, w.shape[-1] - 1)).sigmoid()


@best_expert.reference
def best_expert_reference(x, w, shared):
    import torch

    best = (x @ w).amax(-1, keepdim=True).sigmoid()
    return torch.cat((best, torch.ones_like(best)), -1) if shared else best, best


@op(
    **LIBRARY,
    dims={"B": Dim(low=1, high=3), "T": tokens(100), "K": Dim(low=1, high=4), "D": width(1200)},
    inputs={
        "x": tensor("B", "T*K", "D", grad=False),
        "rows": integers("T", "K", high="T*K", dtype="int32", contiguous=True),
    },
)
def sums_of_rows(x, rows):
    """Rows are summed over the parts of a product, and then over the experts of a token."""
    from aiter.ops.triton.moe.reduce import reduce_grouped

    return reduce_grouped(x, rows, x.new_empty((len(rows), x.shape[-1])))


@sums_of_rows.reference
def sums_of_rows_reference(x, rows):
    return x.sum(0)[rows.long()].sum(1)


@op(
    **LIBRARY,
    dims={"T": Dim(low=1, high=300), "E": Dim(low=8, high=300), "K": groups(1, 2, 4, 8)},
    inputs={"logits": tensor("T", "E", grad=False)},
    options={"softmax": (True, False)},
    apart=("T",),
    contiguous=True,
)
def chosen_experts(logits, softmax, K):
    from aiter.ops.triton.moe.moe_routing.topk import topk

    shares, ids, _ = topk(logits, K, apply_softmax=softmax)
    picked = logits.gather(-1, ids.long().clamp(0, logits.shape[-1] - 1))
    return shares.sort(-1).values, picked.sort(-1).values


@chosen_experts.reference
def chosen_experts_reference(logits, softmax, K):
    best = logits.topk(K, -1).values.sort(-1).values
    return best.softmax(-1) if softmax else best, best


@op(
    **LIBRARY,
    dims={"T": Dim(low=1, high=300), "E": Dim(low=4, high=130), "K": Dim(low=1, high=4)},
    inputs={
        "shares": tensor("T", "K", draw=Draw.SHARES, grad=False),
        "ids": integers("T", "K", high="E", distinct="rows", dtype="int32"),
    },
    contiguous=True,
)
def places_by_expert(shares, ids, E):
    """The order within an expert is free, so experts and shares are compared in their sorted order."""
    import torch
    from aiter.ops.triton.fusions.fused_routing_from_topk import fused_routing_from_topk

    counts, order, inverse, sorted_shares = fused_routing_from_topk(shares, ids, E)
    back = order.long()[inverse.long()]
    return counts, ids.flatten()[order.long()], sorted_shares[inverse.long()].view_as(shares), back.to(torch.int32)


@places_by_expert.reference
def places_by_expert_reference(shares, ids, E):
    import torch

    flat = ids.flatten().long()
    counts = torch.bincount(flat, minlength=E).int()
    return counts, flat.sort().values.int(), shares, torch.arange(len(flat), dtype=torch.int32)
