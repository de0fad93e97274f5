"""The one order that decides every reduction: which of two cases is the plainer one to read and to debug.

A plainer case runs on the device's own SM count, is not giant, has fewer elements, then smaller dims in the order
drawn, then the first autotune configs, fp32, no optional inputs (what the bug does not need is not in the reproducer),
contiguous tensors, normal values, programs in their own order, and seed 0.
"""

from collections.abc import Iterator
from math import prod

from harness.model.case import Case, DType, LaneFill, Layout, ProgramOrder, Scalar, Scale, ValueDistribution
from harness.model.op import Op

DTYPES, LAYOUTS, VALUES, FILLS, ORDERS = (
    tuple(DType),
    tuple(Layout),
    tuple(ValueDistribution),
    tuple(LaneFill),
    tuple(ProgramOrder),
)
SCALES = tuple(Scale)

Plainness = tuple[int, ...]


def dim_order(op: Op) -> tuple[str, ...]:
    """The op's dims in the order in which they are drawn: those with few choices first, since others relate to them."""
    return tuple(sorted(op.dims, key=lambda name: not op.dims[name].choices))


def values_of(op: Op) -> tuple[ValueDistribution, ...]:
    """The distributions that mean something for the op, the plainest first."""
    return VALUES if op.apart else tuple(values for values in VALUES if values is not ValueDistribution.SPOILED)


def distance(op: Op, name: str, size: int) -> int:
    """How far a size is from the dim's plainest: its place among the choices, else how much it exceeds the least."""
    dim = op.dims[name]
    return dim.choices.index(size) if size in dim.choices else size - dim.plainest


def elements(op: Op, case: Case) -> int:
    """How many elements the inputs that are present have together."""
    present = (declared for name, declared in op.inputs.items() if name not in case.absent)
    return sum(prod(declared.extents(case.dims)) for declared in present)


def plainness(op: Op, case: Case, home_sm_count: int) -> Plainness:
    """The case's place in the order; less is plainer.  `home_sm_count` is the device's own."""
    sm_count = case.device.sm_count
    return (
        int(sm_count != home_sm_count),
        SCALES.index(case.scale),
        elements(op, case),
        *(distance(op, name, case.dims[name]) for name in dim_order(op)),
        *(choices.index(setting) for choices, setting in _settings(op, case)),
        sum(case.configs.values()),
        DTYPES.index(case.dtype),
        -len(case.absent),
        sum(LAYOUTS.index(layout) for layout in case.layouts.values()),
        VALUES.index(case.values),
        FILLS.index(case.lane_fill),
        ORDERS.index(case.order),
        sm_count if sm_count != home_sm_count else 0,
        case.seed,
    )


def _settings(op: Op, case: Case) -> Iterator[tuple[tuple[Scalar, ...], Scalar]]:
    """Each option's choices and the one of this case; a setting that is no choice of the op's any more is left out."""
    settings = op.settings(case)
    return ((choices, settings[name]) for name, choices in op.options.items() if settings[name] in choices)
