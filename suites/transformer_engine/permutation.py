"""Permutation of tokens for mixtures of experts, of TransformerEngine.

A token is routed to any number of experts.  Rows are ordered by expert, and by token for each expert.
"""

from harness.suite import Draw, beside, groups, integers, op, segments, tensor, tokens, width

LIBRARY = ("transformer-engine",)
SIZES = {"T": tokens(2048, grows=False), "E": groups(1, 2, 3, 4, 8, 16, 60), "H": width(600)}
ROUTING = integers("T", "E", high=2, dtype="int32")


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={"x": tensor("T", "H"), "routing": ROUTING, "probs": tensor("T", "E", optional=True, draw=Draw.POSITIVE)},
)
def permute(x, routing, probs, T, E):
    routing = with_a_row(routing)
    rows = row_map(routing, T, E)
    permuted, permuted_probs = calling().Permute.apply(x, rows, above_zero(probs), int(routing.sum()))
    return permuted if probs is None else (permuted, permuted_probs)


@permute.reference
def permute_reference(x, routing, probs):
    expert, token = with_a_row(routing).T.nonzero(as_tuple=True)
    return x[token] if probs is None else (x[token], above_zero(probs)[token, expert])


@op(
    requires=LIBRARY,
    dims=SIZES,
    inputs={"x": tensor("T", "H"), "routing": ROUTING, "probs": tensor("T", "E", optional=True)},
)
def permute_and_merge(x, routing, probs, T, E):
    """Permute, scale the rows, and add them up: what a layer of experts does around its products."""
    routing = with_a_row(routing)
    rows = row_map(routing, T, E)
    permuted, _ = calling().Permute.apply(x, rows, None, int(routing.sum()))
    return calling().Unpermute.apply(permuted * 0.5, rows, probs)


@permute_and_merge.reference
def permute_and_merge_reference(x, routing, probs):
    routing = with_a_row(routing).to(x.dtype)
    weight = routing if probs is None else routing * probs
    return 0.5 * x * weight.sum(1, keepdim=True)


@op(
    requires=LIBRARY,
    dims={"T": tokens(2048, grows=False), "N": groups(1, 2, 3, 4, 8, 16, 60), "H": width(600)},
    inputs={
        "x": tensor("T", "H"),
        "bounds": segments("T", "N", may_be_empty=True),
        "keys": integers("N", high=1000),
        "probs": tensor("T", optional=True),
    },
)
def sort_chunks(x, bounds, keys, probs, T):
    from transformer_engine.pytorch.triton.permutation import make_chunk_sort_map

    order = keys[: len(bounds) - 1].argsort(stable=True).int()
    places = make_chunk_sort_map(bounds.diff().int(), order, T, len(order))
    moved, moved_probs = calling().SortChunks.apply(x, places, probs)
    return moved if probs is None else (moved, moved_probs)


@sort_chunks.reference
def sort_chunks_reference(x, bounds, keys, probs):
    import torch

    order = keys[: len(bounds) - 1].argsort(stable=True)
    rows = torch.cat([torch.arange(bounds[chunk], bounds[chunk + 1]) for chunk in order.tolist()])
    return x[rows] if probs is None else (x[rows], probs[rows])


def calling():
    return beside(__file__, "calling.py")


def row_map(routing, T, E):
    from transformer_engine.pytorch.triton.permutation import make_row_id_map

    return make_row_id_map(routing, T, E)


def above_zero(probs):
    """Keep probabilities from zero, by which the library marks rows of padding."""
    return None if probs is None else probs + 0.125


def with_a_row(routing):
    """Route the first token to the first expert: the library asks for one row at least."""
    routing = routing.clone()
    routing[0, 0] = 1
    return routing
