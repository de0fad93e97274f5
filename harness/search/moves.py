"""The moves of shrinking: for each axis of a case, the simpler cases worth trying, the largest step first.

A move changes one axis, or two dims.  A case that no move can simplify is therefore minimal along each axis by itself.
`harness.search.shrinking` decides which moves to take.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import combinations, permutations

from harness.model.case import CallContext, Case, GradMode, LaneFill, Layout, ProgramOrder, Scale, ValueDistribution
from harness.model.op import Op
from harness.search.sort_key import DTYPES, dim_order, layouts_of

FIRST_STEPS = 4

Axis = Callable[[Op, Case], Iterator[Case]]


def home(home_sm_count: int, op: Op, case: Case) -> Iterator[Case]:
    """The device's own SM count."""
    del op
    if case.device.sm_count != home_sm_count:
        yield replace(case, device=case.device.with_sm_count(home_sm_count))


def leaps(op: Op, case: Case) -> Iterator[Case]:
    """Everything at its simplest; everything but the dims; only the dims."""
    simple = replace(
        case,
        dtype=min(op.dtypes, key=DTYPES.index),
        absent=op.optional,
        options=op.simplest_options,
        layouts={},
        values=ValueDistribution.NORMAL,
        configs={},
        picked=(),
        lane_fill=LaneFill.ZERO,
        order=ProgramOrder.FORWARD,
        seed=0,
        grad_mode=GradMode.ENABLED,
        frozen=(),
        environment=(),
        context=CallContext.MAIN,
    )
    smallest = {name: dim.simplest for name, dim in op.dims.items()}
    for leap in (replace(simple, dims=smallest, scale=Scale.USUAL), simple, replace(case, dims=smallest)):
        if op.allows(leap):
            yield leap


def environment(op: Op, case: Case) -> Iterator[Case]:
    """No environment variable, then one less."""
    del op
    rests = (tuple(variable for variable in case.environment if variable != left_out) for left_out in case.environment)
    for fewer in dict.fromkeys(((), *rests)):
        if fewer != case.environment:
            yield replace(case, environment=fewer)


def scale(op: Op, case: Case) -> Iterator[Case]:
    """Tensors of the usual size, with the same dims if they are in range."""
    usual = replace(case, scale=Scale.USUAL)
    if case.scale is not Scale.USUAL and op.allows(usual):
        yield usual


def each_dim(op: Op, case: Case) -> Iterator[Case]:
    """Each dim by itself: its smallest sizes, then steps down from the largest possible step, halving it each time."""
    for name in dim_order(op):
        for size in _smaller(op, name, case.dims[name]):
            yield from _legal(op, case, {name: size})


def dims_together(op: Op, case: Case) -> Iterator[Case]:
    """Two dims reduced by the same amount, for failures that depend on their difference."""
    for first, second in combinations([name for name in dim_order(op) if not op.dims[name].choices], 2):
        most = min(case.dims[name] - op.dims[name].low for name in (first, second))
        for step in _steps(most):
            yield from _legal(op, case, {first: case.dims[first] - step, second: case.dims[second] - step})


def dims_traded(op: Op, case: Case) -> Iterator[Case]:
    """One dim at its smallest sizes and another enlarged, for failures that depend on the number of elements."""
    for first, second in permutations([name for name in dim_order(op) if not op.dims[name].choices], 2):
        product = case.dims[first] * case.dims[second]
        for size in range(max(1, op.dims[first].low), min(op.dims[first].low + FIRST_STEPS, case.dims[first])):
            yield from _legal(op, case, {first: size, second: -(-product // size)})


def configs(op: Op, case: Case) -> Iterator[Case]:
    """The first config for all kernels, then for either half of them, then smaller indices for each kernel."""
    del op
    if case.configs:
        yield replace(case, configs={})
    names = sorted(case.configs)
    if len(names) > 1:
        for half in (names[: len(names) // 2], names[len(names) // 2 :]):
            yield replace(case, configs={name: case.configs[name] for name in half})
    for kernel, index in case.configs.items():
        for smaller in range(index):
            rest = {name: other for name, other in case.configs.items() if name != kernel}
            yield replace(case, configs={**rest, kernel: smaller} if smaller else rest)


def picked(op: Op, case: Case) -> Iterator[Case]:
    """The library's own pick for all functions, then for one more."""
    del op
    rests = (tuple(other for other in case.picked if other != left_out) for left_out in case.picked)
    for fewer in dict.fromkeys(((), *rests)):
        if fewer != case.picked:
            yield replace(case, picked=fewer)


def dtype(op: Op, case: Case) -> Iterator[Case]:
    """Simpler element types."""
    for simpler in DTYPES[: DTYPES.index(case.dtype)]:
        if simpler in op.dtypes:
            yield replace(case, dtype=simpler)


def absent(op: Op, case: Case) -> Iterator[Case]:
    """Without optional inputs: none of them, then one less."""
    present = [name for name in op.optional if name not in case.absent]
    fewer = [op.optional] if present else []
    fewer += [tuple(sorted((*case.absent, name))) for name in present]
    for names in fewer:
        frozen = tuple(name for name in case.frozen if name not in names)
        simpler = replace(case, absent=names, layouts=_without(case.layouts, *names), frozen=frozen)
        if op.allows(simpler):
            yield simpler


def options(op: Op, case: Case) -> Iterator[Case]:
    """Simpler settings of each option."""
    settings = op.settings(case)
    for name, choices in op.options.items():
        if settings[name] not in choices:
            continue
        for setting in choices[: choices.index(settings[name])]:
            simpler = replace(case, options={**case.options, name: setting})
            if op.allows(simpler):
                yield simpler


def gradients(op: Op, case: Case) -> Iterator[Case]:
    """Gradients of all inputs, then of one more."""
    fewer = [tuple(other for other in case.frozen if other != name) for name in case.frozen]
    for grad_mode in dict.fromkeys((GradMode.ENABLED, case.grad_mode)):
        for frozen in dict.fromkeys(((), *fewer, case.frozen)):
            simpler = replace(case, grad_mode=grad_mode, frozen=frozen)
            if simpler != case and op.allows(simpler):
                yield simpler


def layouts(op: Op, case: Case) -> Iterator[Case]:
    """Contiguous layouts for all tensors, then simpler layouts for each."""
    if case.layouts:
        yield replace(case, layouts={})
    for name, layout in case.layouts.items():
        possible = layouts_of(op, name)
        for simpler in possible[: possible.index(layout)] if layout in possible else (Layout.CONTIGUOUS,):
            rest = _without(case.layouts, name)
            yield replace(case, layouts=rest if simpler is Layout.CONTIGUOUS else {**rest, name: simpler})


def choices(*names: str) -> Axis:
    """Return the axis of fields that are enums: simpler members of each, the simplest first."""

    def axis(op: Op, case: Case) -> Iterator[Case]:
        del op
        for name in names:
            chosen = getattr(case, name)
            assert isinstance(chosen, StrEnum)
            members = tuple(type(chosen))
            yield from (replace(case, **{name: simpler}) for simpler in members[: members.index(chosen)])

    return axis


def seed(op: Op, case: Case) -> Iterator[Case]:
    """Seeds 0 and 1."""
    del op
    yield from (replace(case, seed=small) for small in (0, 1) if small < case.seed)


def axes(home_sm_count: int) -> tuple[Axis, ...]:
    """Return the axes in the order tried: those that make the following runs quicker come first."""
    return (
        partial(home, home_sm_count),
        leaps,
        environment,
        choices("context"),
        configs,
        picked,
        scale,
        each_dim,
        dims_together,
        dims_traded,
        options,
        gradients,
        dtype,
        absent,
        layouts,
        choices("values", "lane_fill"),
        choices("order"),
        seed,
    )


def _smaller(op: Op, name: str, size: int) -> Iterator[int]:
    dim = op.dims[name]
    if size in dim.choices:
        yield from dim.choices[: dim.choices.index(size)]
        return
    if dim.choices:
        yield from dim.choices
        yield from (size - step for step in _steps(size - dim.high - 1))
        return
    yield from range(dim.low, min(dim.low + FIRST_STEPS, size))
    yield from (size - step for step in _steps(size - dim.low))


def _steps(most: int) -> Iterator[int]:
    step = most
    while step > 0:
        yield step
        step //= 2


def _legal(op: Op, case: Case, changed: Mapping[str, int]) -> Iterator[Case]:
    smaller = replace(case, dims={**case.dims, **changed})
    if op.allows(smaller):
        yield smaller


def _without(named: Mapping[str, Layout], *names: str) -> Mapping[str, Layout]:
    return {name: layout for name, layout in named.items() if name not in names}
