"""Zoo: selection.  Places of equal elements are defined: the first one comes first."""

from harness.suite import Dim, beside, op, tensor, tokens, width

KERNELS = "kernels/selection.py"
GRID = 2**31 - 1
"""The limit of programs along x, of which each row takes one."""
X = {"x": tensor("T", "D")}


@op(dims={"T": Dim(low=1, high=512, grows=True, largest=GRID), "D": width(1024)}, inputs=X)
def max_with_index(x):
    return beside(__file__, KERNELS).maximum(x)


@max_with_index.reference
def max_with_index_reference(x):
    return tuple(x.max(-1))


@op(
    dims={"T": Dim(low=1, high=256, grows=True, largest=GRID), "D": width(1024)},
    inputs={"x": tensor("T", "D", grad=False)},
)
def argmax(x):
    return beside(__file__, KERNELS).maximum(x)[1]


@argmax.reference
def argmax_reference(x):
    return x.argmax(-1)


@op(
    dims={"T": tokens(64, grows=False), "D": width(256)},
    inputs=X,
    options={"k": (2, 5, 16)},
    where=lambda at: at["k"] <= at["D"],
)
def top_k(x, k):
    return beside(__file__, KERNELS).top_k(x, k)


@top_k.reference
def top_k_reference(x, k):
    values, places = x.sort(dim=-1, descending=True, stable=True)
    return values[:, :k], places[:, :k]


@op(dims={"T": tokens(64, grows=False), "D": width(256)}, inputs={"x": tensor("T", "D", grad=False)})
def sort_rows(x):
    return beside(__file__, KERNELS).sort(x)


@sort_rows.reference
def sort_rows_reference(x):
    return x.sort(-1).values
