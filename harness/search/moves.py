"""The plain moves of shrinking: for each axis of a case, the plainer cases worth trying from it, boldest first.

A move changes one axis (or dims together), so that a case from which no move leads on is minimal along each axis by
itself.  Whether a move is taken is decided elsewhere.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from harness.model.case import Case, LaneFill, Layout, Values
from harness.model.op import Op
from harness.search.plainness import DTYPES, LAYOUTS, VALUES, dim_order
from harness.search.strategies import optional_inputs

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
        absent=optional_inputs(op),
        layouts={},
        values=Values.NORMAL,
        configs={},
        lane_fill=LaneFill.ZERO,
        seed=0,
    )
    least = {name: dim.plainest for name, dim in op.dims.items()}
    for bold in (replace(plain, dims=least), plain, replace(case, dims=least)):
        if op.allows(bold.dims):
            yield bold


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
    optional = optional_inputs(op)
    present = [name for name in optional if name not in case.absent]
    if present:
        yield replace(case, absent=optional, layouts=_without(case.layouts, *optional))
    for name in present:
        yield replace(case, absent=tuple(sorted((*case.absent, name))), layouts=_without(case.layouts, name))


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


def seed(op: Op, case: Case, home_sm_count: int) -> Iterator[Case]:
    """The seeds 0 and 1."""
    del op, home_sm_count
    yield from (replace(case, seed=small) for small in (0, 1) if small < case.seed)


AXES: tuple[Axis, ...] = (home, leaps, each_dim, dims_together, configs, dtype, absent, layouts, values, seed)
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
    dims = {**case.dims, **changed}
    if op.allows(dims):
        yield replace(case, dims=dims)


def _without(named: Mapping[str, Layout], *names: str) -> Mapping[str, Layout]:
    return {name: layout for name, layout in named.items() if name not in names}
