"""A Hypothesis strategy that draws the cases of an op, and batches that can be drawn again exactly.

Sizes come from `harness.search.sizes`.  Hypothesis shrinks in the order of the draws: options and absent inputs, dims,
configs, dtype, layouts, values, seed, scale.  Each draw shrinks towards what `harness.search.sort_key` calls simplest.
A change to the order or the number of draws changes the cases of every seed.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import cast

import hypothesis
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from harness.errors import SuiteError
from harness.model.case import Case, DType, Layout, Scale, ValueDistribution
from harness.model.device import DeviceProfile
from harness.model.input_spec import Tensor
from harness.model.op import Op
from harness.ops.paired_run_policy import ONE_CASE_IN
from harness.search.hypothesis_seam import seed_alone
from harness.search.launch_feedback import LaunchFeedback
from harness.search.oversized import growing_dim_sets, oversized_cases, scales
from harness.search.sizes import SizeContext, families
from harness.search.sort_key import DTYPES, dim_order, values_of

USUAL_ELEMENTS = 2**16
RARE_ELEMENTS = 2**18
ELEMENT_LIMITS = st.sampled_from((USUAL_ELEMENTS,) * 15 + (RARE_ELEMENTS,))
"""The largest input of a case has at most so many elements, so that most cases are quick."""

MOSTLY_CONTIGUOUS = (Layout.CONTIGUOUS,) * 3
VECTOR_LAYOUTS = st.sampled_from((*MOSTLY_CONTIGUOUS, Layout.OFFSET))
MATRIX_LAYOUTS = st.sampled_from((*MOSTLY_CONTIGUOUS, Layout.OFFSET, Layout.STRIDED))
GRADIENT_LAYOUTS = st.sampled_from((*MOSTLY_CONTIGUOUS, Layout.OFFSET, Layout.STRIDED, Layout.EXPANDED))
OFFSETS = st.integers(0, ONE_CASE_IN - 1).map(lambda number: (number + 3) % ONE_CASE_IN)
SEEDS = st.builds(lambda block, offset: ONE_CASE_IN * block + offset, st.integers(0, 2**16 // ONE_CASE_IN - 1), OFFSETS)
"""One in `ONE_CASE_IN` is a multiple of it.

A third of plain integers would be: Hypothesis prefers 0 and powers of two.
"""
ALL_HEALTH_CHECKS = tuple(cast("Iterable[hypothesis.HealthCheck]", hypothesis.HealthCheck))
SCOUT_SIZE = 48
OVERSIZED_EXAMPLES = (1, 16)
"""How many examples are drawn for an oversized scout, one try after another: `Op.where` may forbid the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some cases of one op on one device.  Drawing a batch again, in any process, gives the same cases."""

    op: Op
    device: DeviceProfile
    feedback: LaunchFeedback
    seed: int
    size: int

    def draw(self) -> tuple[Case, ...]:
        """Return the cases in the order drawn; some may be equal.

        Raises:
            SuiteError: the op's `where` accepts none of the dims that were tried.
        """
        cases: list[Case] = []
        self.visit(cases.append, phases=(hypothesis.Phase.generate,))
        return tuple(cases)

    def visit(self, body: Callable[[Case], None], *, phases: tuple[hypothesis.Phase, ...]) -> None:
        """Call `body` with each case that Hypothesis draws.

        If `body` raises, Hypothesis shrinks the case, and then the exception propagates.
        """
        _visit(self.op, cases(self.op, self.device, self.feedback), body, (self.seed, self.size), phases)


def _visit(
    op: Op,
    strategy: st.SearchStrategy[Case],
    body: Callable[[Case], None],
    seed_and_size: tuple[int, int],
    phases: tuple[hypothesis.Phase, ...],
) -> None:
    seed, size = seed_and_size

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=size,
        phases=phases,
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=hypothesis.Verbosity.quiet,
        suppress_health_check=ALL_HEALTH_CHECKS,
    )
    @hypothesis.given(strategy)
    def visited(case: Case) -> None:
        body(case)

    try:
        with seed_alone():
            visited()
    except Unsatisfiable as error:
        raise SuiteError(f"{op.id}: `where` accepts none of the dims tried: loosen it, or narrow them") from error


def scouts(op: Op, device: DeviceProfile) -> tuple[Case, ...]:
    """Return two simple cases of medium size: with every optional input, and with none.

    They run first, for the launch feedback that guides the first batches.  Their seed is 0, so they get paired runs.
    """
    dims = {name: _medium(op, name) for name in op.dims}
    full = Case(op=op.id, dims=dims, dtype=_dtypes(op)[0], device=device, options=op.simplest_options)
    bare = replace(full, absent=op.optional)
    distinct = (full,) if full == bare else (full, bare)
    return tuple(case for case in distinct if op.allows(case))


def oversized_scout(op: Op, device: DeviceProfile, seed: int) -> Case | None:
    """Return an oversized case that runs early, as simple as Hypothesis draws first; None if none was drawn.

    Chance alone can leave an op without one for hundreds of cases.
    """
    if not growing_dim_sets(op):
        return None
    plans = _plans(op, device, LaunchFeedback(), USUAL_ELEMENTS).filter(op.allows)
    strategy = plans.flatmap(lambda usual: oversized_cases(op, usual))
    for examples in OVERSIZED_EXAMPLES:
        drawn: list[Case] = []
        _visit(op, strategy, drawn.append, (seed, examples), (hypothesis.Phase.generate,))
        if found := [case for case in drawn if case.scale is Scale.OVERSIZED]:
            return found[0]
    return None


@st.composite
def cases(draw: st.DrawFn, op: Op, device: DeviceProfile, feedback: LaunchFeedback) -> Case:
    """Draw cases of `op` on `device`."""
    limit = draw(ELEMENT_LIMITS)
    plan = draw(_plans(op, device, feedback, limit).filter(op.allows))
    configs = {kernel: draw(st.integers(0, count - 1)) for kernel, count in feedback.configs.items()}
    dtype = draw(st.sampled_from(_dtypes(op)))
    layouts = {name: draw(_layouts(tensor)) for name, tensor in _tensors(op) if name not in plan.absent}
    layouts["grad"] = draw(GRADIENT_LAYOUTS)
    values = draw(st.sampled_from((ValueDistribution.NORMAL, *values_of(op))))
    seed = draw(SEEDS)
    usual = replace(
        plan,
        dtype=dtype,
        layouts={name: layout for name, layout in layouts.items() if layout is not Layout.CONTIGUOUS},
        values=values,
        configs={kernel: index for kernel, index in configs.items() if index},
        seed=seed,
    )
    return draw(oversized_cases(op, usual)) if draw(scales(op)) is Scale.OVERSIZED else usual


@st.composite
def _plans(draw: st.DrawFn, op: Op, device: DeviceProfile, feedback: LaunchFeedback, limit: int) -> Case:
    """Draw the parts of a case that `Op.where` may constrain: options, absent inputs, dims."""
    options = {name: draw(st.sampled_from(choices)) for name, choices in op.options.items()}
    # Hypothesis shrinks towards False, which makes the input absent.
    absent = tuple(name for name in op.optional if not draw(st.booleans()))
    dims = draw(_dims(op, device.sm_count, feedback, limit))
    return Case(
        op=op.id,
        dims={name: dims[name] for name in op.dims},
        dtype=_dtypes(op)[0],
        device=device,
        absent=absent,
        options=options,
    )


@st.composite
def _dims(draw: st.DrawFn, op: Op, sm_count: int, feedback: LaunchFeedback, limit: int) -> Mapping[str, int]:
    drawn: dict[str, int] = {}
    for name in dim_order(op):
        dim = op.dims[name]
        if dim.choices:
            drawn[name] = draw(st.sampled_from(dim.choices))
            continue
        high = largest_size(op, name, drawn, limit)
        context = SizeContext(sm_count=sm_count, feedback=feedback, drawn=drawn)
        choices: tuple[Sequence[int], ...] = (*families(dim, high, context), range(dim.low, high + 1))
        sizes = choices[draw(st.integers(0, len(choices) - 1))]  # two integers: `one_of` would cost a millisecond
        drawn[name] = sizes[draw(st.integers(0, len(sizes) - 1))]
    return drawn


def largest_size(op: Op, name: str, drawn: Mapping[str, int], limit: int) -> int:
    """Return the largest size for which no input exceeds `limit` elements, with dims not drawn yet at their least."""
    dim = op.dims[name]
    least = {other: drawn.get(other, declared.low) for other, declared in op.dims.items()}

    def largest(size: int) -> int:
        return max((prod(tensor.extents({**least, name: size})) for tensor in op.inputs.values()), default=0)

    sizes = range(dim.low, dim.high + 1)
    return sizes[max(bisect_right(sizes, limit, key=largest) - 1, 0)]


def _tensors(op: Op) -> Iterator[tuple[str, Tensor]]:
    return ((name, declared) for name, declared in op.inputs.items() if isinstance(declared, Tensor))


def _dtypes(op: Op) -> tuple[DType, ...]:
    return tuple(sorted(op.dtypes, key=DTYPES.index))


def _layouts(tensor: Tensor) -> st.SearchStrategy[Layout]:
    return MATRIX_LAYOUTS if len(tensor.shape) > 1 else VECTOR_LAYOUTS


def _medium(op: Op, name: str) -> int:
    dim = op.dims[name]
    return dim.simplest if dim.choices else min(max(SCOUT_SIZE, dim.low), dim.high)
