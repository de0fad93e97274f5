"""The plain moves of shrinking: for each axis of a case, the plainer cases worth trying from it, boldest first.

A move changes one axis (or two dims), so that a case from which no move leads on is minimal along each axis by
itself.  Whether a move is taken is decided elsewhere.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, permutations

from harness.model.case import Case, LaneFill, Layout, ProgramOrder, Scale, ValueDistribution
from harness.model.op import Op
from harness.search.sort_key import DTYPES, LAYOUTS, ORDERS, VALUES, dim_order

FIRST_STEPS = 4

Axis = Callable[[Op, Case, int], Iterator[Case]]


def home(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """The device's own number of SMs."""
    del op
    if case.device.sm_count != home_sm_count:
        yield replace(case, device=case.device.with_sm_count(home_sm_count))


def leaps(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """Everything plainest but the dims; all dims plainest but the rest; everything."""
    del home_sm_count
    plain = replace(
        case,
        dtype=min(op.dtypes, key=DTYPES.index),
        absent=op.optional,
        options=op.plainest_options,
        layouts={},
        values=ValueDistribution.NORMAL,
        configs={},
        lane_fill=LaneFill.ZERO,
        order=ProgramOrder.FORWARD,
        seed=0,
    )
    least = {name: dim.plainest for name, dim in op.dims.items()}
    for bold in (replace(plain, dims=least, scale=Scale.USUAL), plain, replace(case, dims=least)):
        if op.allows(bold):
            yield bold


def scale(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """Tensors of the usual size: the same dims where they are in range."""
    del home_sm_count
    usual = replace(case, scale=Scale.USUAL)
    if case.scale is not Scale.USUAL and op.allows(usual):
        yield usual


def each_dim(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """Each dim by itself: its least values, then down by halves of the distance to the least, at last by one."""
    del home_sm_count
    for name in dim_order(op):
        for size in _smaller(op, name, case.dims[name]):
            yield from _legal(op, case, {name: size})


def dims_together(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """Two dims by the same amount, for failures that depend on how far apart they are."""
    del home_sm_count
    for one, other in combinations([name for name in dim_order(op) if not op.dims[name].choices], 2):
        room = min(case.dims[name] - op.dims[name].low for name in (one, other))
        for step in _steps(room):
            yield from _legal(op, case, {one: case.dims[one] - step, other: case.dims[other] - step})


def dims_traded(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """One dim's least values with another so much larger, for failures that depend on how many elements there are."""
    del home_sm_count
    for one, other in permutations([name for name in dim_order(op) if not op.dims[name].choices], 2):
        product = case.dims[one] * case.dims[other]
        for size in range(max(1, op.dims[one].low), min(op.dims[one].low + FIRST_STEPS, case.dims[one])):
            yield from _legal(op, case, {one: size, other: -(-product // size)})


def configs(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """The first configs: of all kernels, of each kernel, then any smaller index."""
    del op, home_sm_count
    if case.configs:
        yield replace(case, configs={})
    for kernel, index in case.configs.items():
        for smaller in range(index):
            others = {name: at for name, at in case.configs.items() if name != kernel}
            yield replace(case, configs={**others, kernel: smaller} if smaller else others)


def dtype(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """Plainer element types."""
    del home_sm_count
    for plainer in DTYPES[: DTYPES.index(case.dtype)]:
        if plainer in op.dtypes:
            yield replace(case, dtype=plainer)


def absent(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """Without the optional inputs: none, then one less."""
    del home_sm_count
    present = [name for name in op.optional if name not in case.absent]
    fewer = [op.optional] if present else []
    fewer += [tuple(sorted((*case.absent, name))) for name in present]
    for names in fewer:
        without = replace(case, absent=names, layouts=_without(case.layouts, *names))
        if op.allows(without):
            yield without


def options(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """Plainer settings of each option."""
    del home_sm_count
    settings = op.settings(case)
    for name, choices in op.options.items():
        if settings[name] not in choices:
            continue
        for plainer in choices[: choices.index(settings[name])]:
            simpler = replace(case, options={**case.options, name: plainer})
            if op.allows(simpler):
                yield simpler


def layouts(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """Contiguous tensors: all, each, then any plainer layout."""
    del op, home_sm_count
    if case.layouts:
        yield replace(case, layouts={})
    for name, layout in case.layouts.items():
        for plainer in LAYOUTS[: LAYOUTS.index(layout)]:
            rest = _without(case.layouts, name)
            yield replace(case, layouts=rest if plainer is Layout.CONTIGUOUS else {**rest, name: plainer})


def values(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """Plainer values, and lanes that hold zero."""
    del op, home_sm_count
    for plainer in VALUES[: VALUES.index(case.values)]:
        yield replace(case, values=plainer)
    if case.lane_fill is not LaneFill.ZERO:
        yield replace(case, lane_fill=LaneFill.ZERO)


def order(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """Plainer orders of the programs."""
    del op, home_sm_count
    for plainer in ORDERS[: ORDERS.index(case.order)]:
        yield replace(case, order=plainer)


def seed(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """The seeds 0 and 1."""
    del op, home_sm_count
    yield from (replace(case, seed=small) for small in (0, 1) if small < case.seed)


AXES: tuple[Axis, ...] = (
    home,
    leaps,
    scale,
    each_dim,
    dims_together,
    dims_traded,
    options,
    configs,
    dtype,
    absent,
    layouts,
    values,
    order,
    seed,
)
"""In the order tried: what makes the following runs quicker comes first."""


def _smaller(op: Op, name: str, size: int) -> Iterator[int]:
    dim = op.dims[name]
    if dim.choices:
        yield from dim.choices[: dim.choices.index(size)]
        return
    yield from range(dim.low, min(dim.low + FIRST_STEPS, size))
    yield from (size - step for step in _steps(size - dim.low))


def _steps(room: int) -> Iterator[int]:
    step = room
    while step > 0:
        yield step
        step //= 2


def _legal(op: Op, case: Case, changed: Mapping[str, int]) -> Iterator[Case]:
    smaller = replace(case, dims={**case.dims, **changed})
    if op.allows(smaller):
        yield smaller


def _without(named: Mapping[str, Layout], *names: str) -> Mapping[str, Layout]:
    return {name: layout for name, layout in named.items() if name not in names}
