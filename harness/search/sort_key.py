"""The sort key of shrinking: one total order that decides every reduction.

The simpler of two cases is the one that is easier to read and to debug.  In this order of importance, a simpler case

- runs on the device's own SM count, without environment variables and in the main thread, is neither long nor
  oversized, and has fewer elements
- has smaller dims, compared in the order in which they are drawn, and simpler options
- asks for the gradients of all inputs
- uses the first autotune configs, the configs that host code picks by itself, and fp32
- lacks optional inputs: a reproducer then holds only the inputs that the bug needs
- has contiguous tensors, normal values, programs in their usual order, and seed 0
"""

from collections.abc import Iterator
from math import prod

from harness.model.case import (
    CONTIGUOUS_LAYOUTS,
    FEWEST_DIMS,
    ONLY_IN_CHECKS,
    RARE_LAYOUTS,
    CallContext,
    Case,
    DType,
    GradMode,
    LaneFill,
    Layout,
    ProgramOrder,
    Scalar,
    Scale,
    ValueDistribution,
)
from harness.model.input_spec import Input, Integers, Shaped, Tensor
from harness.model.op import Op

DTYPES, LAYOUTS, VALUES, FILLS, ORDERS = (
    tuple(DType),
    tuple(Layout),
    tuple(ValueDistribution),
    tuple(LaneFill),
    tuple(ProgramOrder),
)
SCALES = tuple(Scale)
CONTEXTS = tuple(CallContext)
GRAD_MODES = tuple(GradMode)


SortKey = tuple[int, ...]
"""Less is simpler."""


def dim_order(op: Op) -> tuple[str, ...]:
    """Return the op's dims in the order of the draws: first those with choices, since others relate to them."""
    return tuple(sorted(op.dims, key=lambda name: not op.dims[name].choices))


def values_of(op: Op) -> tuple[ValueDistribution, ...]:
    """Return the distributions that are drawn for the op's inputs, the simplest first."""
    # A search draws many rows so short that all of their normal numbers are negative.
    left_out = set(ONLY_IN_CHECKS) | (set() if op.apart else {ValueDistribution.NAN_TAINTED})
    return tuple(values for values in VALUES if values not in left_out)


def layouts_of(op: Op, name: str) -> tuple[Layout, ...]:
    """Return the layouts that an input can have, or all cotangents for `grad`, the simplest first.

    Outputs are unknown before a run: cotangents are taken to have as many dims as the largest input, and two at least.
    """
    if name not in op.inputs:
        shapes = (len(declared.shape) for declared in op.inputs.values() if isinstance(declared, Tensor))
        dims = max((2, *shapes))
        return tuple(
            layout
            for layout in LAYOUTS
            if dims >= FEWEST_DIMS.get(layout, 0) and layout not in {Layout.REPEATED, Layout.BROADCAST}
        )
    declared = op.inputs[name]
    dims = len(declared.shape) if isinstance(declared, Shaped) else 1
    contiguity = declared.contiguous or op.contiguous

    def is_legal(layout: Layout) -> bool:
        if layout is Layout.BROADCAST:
            return isinstance(declared, Shaped) and bool(declared.broadcasts)
        if layout is Layout.EXPANDED or dims < FEWEST_DIMS.get(layout, 0):
            return False
        if layout is Layout.STRIDED and dims == 1:  # as a stepped one
            return False
        if layout is Layout.REPEATED and not _may_repeat(declared):
            return False
        if contiguity == "rows":
            return layout not in RARE_LAYOUTS
        return not contiguity or layout in CONTIGUOUS_LAYOUTS

    return tuple(filter(is_legal, LAYOUTS))


def _may_repeat(declared: Input) -> bool:
    """Return True if all slices of an input may be equal; boundaries, sizes and distinct integers would be illegal."""
    return isinstance(declared, Tensor) or (isinstance(declared, Integers) and not declared.distinct)


def usual_layouts_of(op: Op, name: str) -> tuple[Layout, ...]:
    """Return those of the layouts that many callers pass: tensors of integers are contiguous, or broadcast."""
    usual = tuple(layout for layout in layouts_of(op, name) if layout not in RARE_LAYOUTS)
    if name in op.inputs and not isinstance(op.inputs[name], Tensor):
        return tuple(layout for layout in usual if layout in {Layout.CONTIGUOUS, Layout.BROADCAST})
    return usual


def distance(op: Op, name: str, size: int) -> int:
    """Return how far a size is from the dim's simplest: its index among the choices, else the excess over the least."""
    dim = op.dims[name]
    return dim.choices.index(size) if size in dim.choices else size - dim.simplest


def elements(op: Op, case: Case) -> int:
    """Return the number of elements of all inputs that are present."""
    present = (declared for name, declared in op.inputs.items() if name not in case.absent)
    return sum(prod(declared.extents(case.dims)) for declared in present)


def sort_key(op: Op, case: Case, home_sm_count: int) -> SortKey:
    """Return the case's place in the order; `home_sm_count` is the device's own SM count."""
    sm_count = case.device.sm_count
    return (
        int(sm_count != home_sm_count),
        len(case.environment),
        CONTEXTS.index(case.context),
        SCALES.index(case.scale),
        elements(op, case),
        *(distance(op, name, case.dims[name]) for name in dim_order(op)),
        *(choices.index(setting) for choices, setting in _settings(op, case)),
        GRAD_MODES.index(case.grad_mode),
        len(case.frozen),
        sum(case.configs.values()),
        len(case.picked),
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
    """Yield each option's choices and the case's setting.  Skip a setting that the op no longer offers."""
    settings = op.settings(case)
    return ((choices, settings[name]) for name, choices in op.options.items() if settings[name] in choices)
