"""FlagGems' functions as callers name them, without torch's dispatcher: `flag_gems.pad`, `flag_gems.index_put`, sums.

The functions have the contracts of torch's own of these names, so torch on the CPU is the definition.
"""

from harness.suite import Dim, beside, groups, integers, op, tensor, tokens, width

beside(__file__, "gems_vendor.py").name_vendor()

LIBRARY = {"requires": ("flag-gems",)}
MODES = ("constant", "reflect", "replicate", "circular")
ROOM = Dim(low=0, high=40)
TABLE = {"M": Dim(low=1, high=200), "N": Dim(low=1, high=200)}


def reaches(at, size, *pads):
    """Return True if padding of this mode finds enough elements in the input."""
    most = {"reflect": at[size] - 1, "circular": at[size]}.get(at["mode"])
    return most is None or all(at[pad] <= most for pad in pads)


@op(
    **LIBRARY,
    dims={"B": groups(1, 2, 3), "C": groups(1, 2, 5), "W": Dim(low=1, high=300), "L": ROOM, "R": ROOM},
    inputs={"x": tensor("B", "C", "W", grad=False)},
    options={"mode": MODES},
    where=lambda at: reaches(at, "W", "L", "R"),
    launches=False,
)
def padded_rows(x, mode, L, R):
    from flag_gems import pad

    return pad(x, (L, R), mode, 0.5 if mode == "constant" else None)


@padded_rows.reference
def padded_rows_reference(x, mode, L, R):
    return torch_pad(x, (L, R), mode)


@op(
    **LIBRARY,
    dims={
        "B": groups(1, 2, 3),
        "C": groups(1, 2, 5),
        "H": Dim(low=1, high=60),
        "W": Dim(low=1, high=60),
        "L": ROOM,
        "R": ROOM,
        "U": ROOM,
        "D": ROOM,
    },
    inputs={"x": tensor("B", "C", "H", "W", grad=False)},
    options={"mode": MODES},
    where=lambda at: reaches(at, "W", "L", "R") and reaches(at, "H", "U", "D"),
    launches=False,
)
def padded_planes(x, mode, L, R, U, D):
    from flag_gems import pad

    return pad(x, (L, R, U, D), mode, 0.5 if mode == "constant" else None)


@padded_planes.reference
def padded_planes_reference(x, mode, L, R, U, D):
    return torch_pad(x, (L, R, U, D), mode)


def torch_pad(x, pads, mode):
    import torch

    return torch.nn.functional.pad(x, pads, mode, 0.5 if mode == "constant" else None)


@op(
    **LIBRARY,
    dims={**TABLE, "K": Dim(low=1, high=200)},
    inputs={
        "x": tensor("M", "N", grad=False),
        "rows": integers("K", high="M", distinct=True),
        "values": tensor("K", "N", grad=False),
    },
    options={
        "given": ("all", "row", "number"),
        "counted": ("from the start", "from the end"),
        "accumulate": (False, True),
        "inplace": (False, True),
    },
    where=lambda at: at["K"] <= at["M"],
)
def put_rows(x, rows, values, given, counted, accumulate, inplace, M):
    places = rows if counted == "from the start" else rows - M
    return put(x, (places,), one_of(values, given), accumulate=accumulate, inplace=inplace)


@put_rows.reference
def put_rows_reference(x, rows, values, given, accumulate):
    return x.index_put((rows,), one_of(values, given), accumulate)


def one_of(values, given):
    return {"all": values, "row": values[:1], "number": values[0, 0]}[given]


@op(
    **LIBRARY,
    dims={**TABLE, "P": Dim(low=1, high=20), "K": Dim(low=1, high=100)},
    inputs={
        "x": tensor("M", "N", "P", grad=False),
        "first": integers("K", high="M"),
        "second": integers("K", high="N"),
        "third": integers("K", high="P"),
        "values": tensor("K", "M*N*P", grad=False),
    },
    options={"named": ("1", "2", "3", "12", "23", "13", "123"), "inplace": (False, True)},
    where=lambda at: at["K"] * at["M"] * at["N"] * at["P"] <= 1 << 17,
)
def add_at_places(x, first, second, third, values, named, inplace):
    places, values = places_and_values(x, (first, second, third), values, named)
    return put(x, places, values, accumulate=True, inplace=inplace)


@add_at_places.reference
def add_at_places_reference(x, first, second, third, values, named):
    import torch

    places, values = places_and_values(x, (first, second, third), values, named)
    return torch.ops.aten.index_put(x, places, values, accumulate=True)  # the method refuses None


def places_and_values(x, indices, values, named):
    """Return the indices of the named axes, None for others between them, and values of the shape of what they name."""
    places = tuple(one if str(axis) in named else None for axis, one in enumerate(indices, 1))
    while places[-1] is None:
        places = places[:-1]
    shape = x[tuple(slice(None) if one is None else one for one in places)].shape
    return places, values.flatten()[: shape.numel()].view(shape)


@op(
    **LIBRARY,
    dims=TABLE,
    inputs={
        "x": tensor("M", "N", grad=False),
        "rows": integers("M", high=2, dtype="bool"),
        "cells": integers("M", "N", high=2, dtype="bool"),
        "values": tensor("M", "N", grad=False),
    },
    options={"by": ("rows", "cells"), "given": ("all", "number"), "inplace": (False, True)},
    launches=False,  # nothing may be masked
)
def put_where(x, rows, cells, values, by, given, inplace):
    mask = rows if by == "rows" else cells
    return put(x, (mask,), values[0, 0] if given == "number" else values[mask], accumulate=False, inplace=inplace)


@put_where.reference
def put_where_reference(x, rows, cells, values, by, given):
    mask = rows if by == "rows" else cells
    return x.index_put((mask,), values[0, 0] if given == "number" else values[mask])


def put(x, places, values, *, accumulate, inplace):
    import flag_gems

    if not inplace:
        return flag_gems.index_put(x, places, values, accumulate)
    x = x.clone()
    flag_gems.index_put_(x, places, values, accumulate)
    return x


@op(
    **LIBRARY,
    dims={"T": tokens(512), "D": width(4096)},
    inputs={
        "x": tensor("T", "D", grad=False),
        "y": tensor("T", "D", grad=False),
        "row": tensor("D", grad=False, optional=True),
    },
)
def sums(x, y, row):
    from flag_gems import add

    return add(x, y if row is None else row)


@sums.reference
def sums_reference(x, y, row):
    return x + (y if row is None else row)
