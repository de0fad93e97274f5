"""Operators of xFormers on rows: RMS norm, sums with it, and selected rows."""

from harness.suite import Dim, integers, op, tensor, tokens, width

LIBRARY = {"requires": ("sources:xformers",), "stubs": {"xformers": "xformers_stubs.py"}}
EPS = 1e-6
ALPHA = 0.5
ROWS = {"T": tokens(512), "D": width(4096)}
SELECTED = {"N": Dim(low=2, high=128), "I": Dim(low=1, high=127)}


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={"x": tensor("T", "D", grad=False), "weight": tensor("D", grad=False, optional=True)},
    apart=("T",),
)
def rms_norm(x, weight):
    from xformers.ops.rmsnorm import rms_norm as apply

    return apply(x.contiguous(), whole(weight), EPS)


@rms_norm.reference
def rms_norm_reference(x, weight):
    return scaled(over_rms(x), weight)


@op(
    **LIBRARY,
    dims=ROWS,
    inputs={
        "x": tensor("T", "D", grad=False),
        "y": tensor("T", "D", grad=False),
        "weight": tensor("D", grad=False, optional=True),
    },
    apart=("T",),
)
def sum_and_rms_norm(x, y, weight):
    from xformers.ops.rmsnorm import rms_norm_add

    total = x.clone().contiguous()
    return rms_norm_add(total, y.contiguous(), whole(weight), EPS), total


@sum_and_rms_norm.reference
def sum_and_rms_norm_reference(x, y, weight):
    return scaled(over_rms(x + y), weight), x + y


@op(
    **LIBRARY,
    dims={**SELECTED, "M": Dim(low=1, high=16), "D": width(1200)},
    inputs={
        "x": tensor("N", "M", "D"),
        "source": tensor("I", "M", "D"),
        "scaling": tensor("D", optional=True),
        "keys": integers("N", high=1000),
    },
    where=lambda at: at["I"] <= at["N"],
)
def scaled_rows_added(x, source, scaling, keys, I):  # noqa: E741 - a dim
    from xformers.ops.indexing import scaled_index_add

    return scaled_index_add(x.clone().contiguous(), chosen(keys, I), source.contiguous(), whole(scaling), ALPHA)


@scaled_rows_added.reference
def scaled_rows_added_reference(x, source, scaling, keys, I):  # noqa: E741 - a dim
    return x.index_add(0, chosen(keys, I), ALPHA * scaled(source, scaling))


@op(
    **LIBRARY,
    dims={**SELECTED, "D": width(1200)},
    inputs={"x": tensor("N", "D"), "y": tensor("N", "D"), "keys": integers("N", high=1000)},
    where=lambda at: at["I"] < at["N"],
)
def rows_of_two_selected(x, y, keys, I):  # noqa: E741 - a dim
    from xformers.ops.indexing import index_select_cat

    rows = chosen(keys, I)
    return index_select_cat([x.contiguous(), y.contiguous()], [rows, rows.flip(0)])


@rows_of_two_selected.reference
def rows_of_two_selected_reference(x, y, keys, I):  # noqa: E741 - a dim
    import torch

    rows = chosen(keys, I)
    return torch.cat((x[rows].flatten(), y[rows.flip(0)].flatten()))


def chosen(keys, count):
    """Return different rows in some order."""
    return keys.argsort(stable=True)[:count]


def over_rms(x):
    return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt()


def scaled(x, weight):
    return x if weight is None else x * weight


def whole(x):
    return None if x is None else x.contiguous()
