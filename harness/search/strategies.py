"""How cases are drawn: a Hypothesis strategy over an op's axes, and batches of it that can be drawn again exactly.

Sizes come from `harness.search.sizes`.  The order of the draws is the order of shrinking: options and absent inputs,
dims, configs, dtype, layouts, values, seed, scale; each toward what `harness.search.sort_key` calls plainest.
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
from harness.model.paired_run import ONE_CASE_IN
from harness.search.hypothesis_seam import seed_alone
from harness.search.launch_feedback import Hints
from harness.search.oversized import giants, scales
from harness.search.sizes import Surroundings, families
from harness.search.sort_key import DTYPES, dim_order, values_of

USUAL_ELEMENTS = 2**16
RARE_ELEMENTS = 2**18
ELEMENT_LIMITS = st.sampled_from((USUAL_ELEMENTS,) * 15 + (RARE_ELEMENTS,))
"""The largest input of a case stays below one of these, so that most cases are quick."""

PLAIN = (Layout.CONTIGUOUS,) * 3
VECTOR_LAYOUTS = st.sampled_from((*PLAIN, Layout.OFFSET))
MATRIX_LAYOUTS = st.sampled_from((*PLAIN, Layout.OFFSET, Layout.STRIDED))
GRADIENT_LAYOUTS = st.sampled_from((*PLAIN, Layout.OFFSET, Layout.STRIDED, Layout.EXPANDED))
PLACES = st.integers(0, ONE_CASE_IN - 1).map(lambda number: (number + 3) % ONE_CASE_IN)
SEEDS = st.builds(lambda block, place: ONE_CASE_IN * block + place, st.integers(0, 2**16 // ONE_CASE_IN - 1), PLACES)
"""One in `ONE_CASE_IN` is a multiple of it.  Of plain integers a third would be: Hypothesis likes 0 and powers of 2."""
ALL_HEALTH_CHECKS = tuple(cast("Iterable[hypothesis.HealthCheck]", hypothesis.HealthCheck))
SCOUT_SIZE = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A recipe for some cases of one op on one device: drawing it again, in any process, gives the same cases."""

    op: Op
    device: DeviceProfile
    hints: Hints
    seed: int
    size: int

    def draw(self) -> tuple[Case, ...]:
        """The cases, in the order drawn; some may be equal.

        Raises:
            SuiteError: the op's `where` accepts none of the dims that were tried.
        """
        cases: list[Case] = []
        self.visit(cases.append, phases=(hypothesis.Phase.generate,))
        return tuple(cases)

    def visit(self, body: Callable[[Case], None], *, phases: tuple[hypothesis.Phase, ...]) -> None:
        """Hand each case to `body`, through Hypothesis.  What `body` raises comes out at last, after shrinking."""

        @hypothesis.seed(self.seed)
        @hypothesis.settings(
            max_examples=self.size,
            phases=phases,
            database=None,
            deadline=None,
            derandomize=False,
            report_multiple_bugs=False,
            print_blob=False,
            verbosity=hypothesis.Verbosity.quiet,
            suppress_health_check=ALL_HEALTH_CHECKS,
        )
        @hypothesis.given(cases(self.op, self.device, self.hints))
        def visited(case: Case) -> None:
            body(case)

        try:
            with seed_alone():
                visited()
        except Unsatisfiable as error:
            raise SuiteError(
                f"{self.op.id}: `where` accepts none of the dims tried: loosen it, or narrow them"
            ) from error


def scouts(op: Op, device: DeviceProfile) -> tuple[Case, ...]:
    """Two plain cases of middling size, with every optional input and with none: their launches tell what to draw."""
    dims = {name: _middling(op, name) for name in op.dims}
    full = Case(op=op.id, dims=dims, dtype=_dtypes(op)[0], device=device, options=op.plainest_options)
    bare = replace(full, absent=op.optional)
    both = (full,) if full == bare else (full, bare)
    return tuple(case for case in both if op.allows(case))


@st.composite
def cases(draw: st.DrawFn, op: Op, device: DeviceProfile, hints: Hints) -> Case:
    """Cases of `op` on `device`."""
    limit = draw(ELEMENT_LIMITS)
    plan = draw(_plans(op, device, hints, limit).filter(op.allows))
    configs = {kernel: draw(st.integers(0, count - 1)) for kernel, count in hints.configs.items()}
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
    return draw(giants(op, usual)) if draw(scales(op)) is Scale.GIANT else usual


@st.composite
def _plans(draw: st.DrawFn, op: Op, device: DeviceProfile, hints: Hints, limit: int) -> Case:
    """Cases as far as `Op.where` looks: options, absent inputs, dims."""
    options = {name: draw(st.sampled_from(choices)) for name, choices in op.options.items()}
    # `False` is Hypothesis's plainest boolean, and stands for an input that is absent
    absent = tuple(name for name in op.optional if not draw(st.booleans()))
    dims = draw(_dims(op, device.sm_count, hints, limit))
    return Case(
        op=op.id,
        dims={name: dims[name] for name in op.dims},
        dtype=_dtypes(op)[0],
        device=device,
        absent=absent,
        options=options,
    )


@st.composite
def _dims(draw: st.DrawFn, op: Op, sm_count: int, hints: Hints, limit: int) -> Mapping[str, int]:
    drawn: dict[str, int] = {}
    for name in dim_order(op):
        dim = op.dims[name]
        if dim.choices:
            drawn[name] = draw(st.sampled_from(dim.choices))
            continue
        high = room(op, name, drawn, limit)
        around = Surroundings(sm_count=sm_count, hints=hints, drawn=drawn)
        known: tuple[Sequence[int], ...] = (*families(dim, high, around), range(dim.low, high + 1))
        sizes = known[draw(st.integers(0, len(known) - 1))]  # two integers, for `one_of` costs a millisecond
        drawn[name] = sizes[draw(st.integers(0, len(sizes) - 1))]
    return drawn


def room(op: Op, name: str, drawn: Mapping[str, int], limit: int) -> int:
    """The largest size with which the largest input keeps to `limit` elements, the dims to come being least."""
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


def _middling(op: Op, name: str) -> int:
    dim = op.dims[name]
    return dim.plainest if dim.choices else min(max(SCOUT_SIZE, dim.low), dim.high)
