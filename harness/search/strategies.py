"""A Hypothesis strategy that draws the cases of an op, and batches that can be drawn again exactly.

Sizes come from `harness.search.sizes`.  Hypothesis shrinks in the order of the draws: options and absent inputs, dims,
configs, dtype, layouts, values, wanted gradients, seed, scale.  Each draw shrinks towards what
`harness.search.sort_key` calls simplest.  A change to the order or the number of draws changes the cases of every seed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import combinations, cycle, islice
from math import lcm
from typing import cast

import hypothesis
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from harness.errors import SuiteError
from harness.execution.paired_run_policy import ONE_CASE_IN
from harness.execution.reruns import AUTOTUNER_CHECKS, Rerun, seed_asking
from harness.model.case import (
    FAR_FROM_ONE,
    CallContext,
    Case,
    DType,
    Environment,
    GradMode,
    Layout,
    Scale,
    ValueDistribution,
)
from harness.model.device import DeviceProfile
from harness.model.input_spec import Tensor
from harness.model.op import Op
from harness.model.paired_run import SecondRun
from harness.search.drawn_configs import with_picked_configs
from harness.search.drawn_contexts import early_contexts, in_drawn_context
from harness.search.hypothesis_seam import seed_alone
from harness.search.launch_feedback import LaunchFeedback
from harness.search.long_cases import ONE_IN as LONG_ONE_IN
from harness.search.long_cases import early_long_cases, long_cases, long_dims
from harness.search.oversized import ONE_IN as OVERSIZED_ONE_IN
from harness.search.oversized import growing_dim_sets, oversized_cases
from harness.search.realistic_sizes import in_realistic_size
from harness.search.sizes import SizeContext, families
from harness.search.sort_key import DTYPES, dim_order, layouts_of, usual_layouts_of, values_of

USUAL_ELEMENTS = 2**16
RARE_ELEMENTS = 2**18
ELEMENT_LIMITS = st.sampled_from((USUAL_ELEMENTS,) * 15 + (RARE_ELEMENTS,))
"""The largest input of a case has at most so many elements, so that most cases are quick."""

LEAST_CONTIGUOUS = 3
"""A layout is drawn from so many that are contiguous and the others, or from as many as there are others."""
RARE_LAYOUT_ONE_IN = 4
"""One case in so many has an input, or cotangents, in a layout that few callers pass."""
OFFSETS = st.integers(0, ONE_CASE_IN - 1).map(lambda number: (number + 3) % ONE_CASE_IN)
SEEDS = st.builds(lambda block, offset: ONE_CASE_IN * block + offset, st.integers(0, 2**16 // ONE_CASE_IN - 1), OFFSETS)
"""One in `ONE_CASE_IN` is a multiple of it.

A third of plain integers would be: Hypothesis prefers 0 and powers of two.
"""


class Wanted(StrEnum):
    """Which inputs of a case require a gradient, simplest first."""

    ALL = "all"
    SOME = "some"
    NONE = "none"
    NO_GRAD = "no_grad"
    """As `GradMode.NO_GRAD`."""


WANTED = st.sampled_from((Wanted.ALL,) * 20 + (Wanted.SOME, Wanted.SOME, Wanted.NONE, Wanted.NO_GRAD))
"""One case in six does not ask for all gradients."""
SCALE_DRAWS = lcm(LONG_ONE_IN, OVERSIZED_ONE_IN)
ALL_HEALTH_CHECKS = tuple(cast("Iterable[hypothesis.HealthCheck]", hypothesis.HealthCheck))
SCOUT_SIZES = (48, 24, 12, 6, 3, 1)
"""The sizes of a scout: the first at which no input has more elements than `SCOUT_ELEMENTS`."""
SCOUT_ELEMENTS = 2**22
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
    environment: Environment = ()
    """That of each case: a worker process has one environment, as it has one device."""
    second_runs: frozenset[SecondRun] = frozenset()
    """What each case gets, beside those that its drawn seed asks for."""
    second_runs_one_in: int = 1
    """As `CampaignPlan.second_runs_one_in`."""
    has_realistic_sizes: bool = False
    """True if some cases have the sizes of models."""

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

        # Not by `map`, which makes Hypothesis draw other cases.
        def placed(case: Case) -> None:
            case = in_drawn_context(self.op, case, self.feedback)
            case = in_realistic_size(self.op, case) if self.has_realistic_sizes else case
            asks = self.feedback.configs or not case.seed % self.second_runs_one_in
            seed = seed_asking(case.seed, self.second_runs) if asks else case.seed
            body(replace(case, environment=self.environment or case.environment, seed=seed))

        _visit(self.op, cases(self.op, self.device, self.feedback), placed, (self.seed, self.size), phases)


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

    They run first, for the launch feedback that guides the first batches.  Seed 0 asks for paired runs.  If neither is
    legal, some of their dims are as small as possible.
    """
    for dims in _partly_smallest(op, _medium(op)):
        full = Case(op=op.id, dims=dims, dtype=_dtypes(op)[0], device=device, options=op.simplest_options)
        bare = replace(full, absent=op.optional)
        distinct = (full,) if full == bare else (full, bare)
        if legal := tuple(filter(op.allows, distinct)):
            return legal
    return ()


def _partly_smallest(op: Op, dims: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """Yield the dims, first as they are, then with one and with more of them at their simplest."""
    for count in range(len(dims) + 1):
        for names in combinations(dims, count):
            yield {**dims, **{name: op.dims[name].simplest for name in names}}


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
        if oversized := [case for case in drawn if case.scale is Scale.OVERSIZED]:
            return oversized[0]
    return None


def sampled_scouts(op: Op, device: DeviceProfile, feedback: LaunchFeedback) -> Iterator[Case]:
    """Yield the scouts with seeds that ask for second runs; if kernels are autotuned, for each check of autotuners."""
    simple = scouts(op, device)
    yield from simple  # with the check of seed 0
    needless = {*(() if feedback.configs else AUTOTUNER_CHECKS), *(() if op.threads else (Rerun.THREADS,))}
    for number, check in enumerate(AUTOTUNER_CHECKS[1:], start=1):
        if check not in needless:
            yield from (replace(case, seed=number * ONE_CASE_IN) for case in simple[:1])
    if op.graphs:
        yield from (replace(case, seed=seed_asking(0, (SecondRun.GRAPH,))) for case in simple[:1])


def early_cases(op: Op, drawn: Sequence[Case], feedback: LaunchFeedback) -> tuple[Case, ...]:
    """Return cases of rare settings, made from the cases of the op's first batch; some may be equal to those.

    They ask for other gradients, have a long dim, an environment that the op declares, or another context.  A search of
    a few batches would miss these settings otherwise.
    """
    added: list[Case] = []
    # Hypothesis draws the simplest case first, in which little can go wrong.
    if usual := [case for case in reversed(drawn) if case.scale is Scale.USUAL and op.wanted_gradients(case)]:
        in_inference, *trained = islice(cycle(usual), 4)
        added.append(replace(in_inference, grad_mode=GradMode.NO_GRAD))
        for case, frozen in zip(trained, (slice(None), slice(1, None), slice(1)), strict=True):
            added.append(replace(case, frozen=tuple(sorted(op.differentiable(case)[frozen]))))
    if usual := [replace(case, context=CallContext.MAIN) for case in reversed(drawn) if case.scale is Scale.USUAL]:
        for environment, case in zip(op.environments, cycle(usual), strict=False):
            placed = replace(case, environment=environment)
            added += (placed, replace(placed, context=CallContext.THREAD))
        added += early_contexts(op, usual[0], feedback)
    for simple in scouts(op, drawn[0].device)[:1] if drawn else ():
        added += early_long_cases(op, simple)
    return tuple(filter(op.allows, added))


@st.composite
def cases(draw: st.DrawFn, op: Op, device: DeviceProfile, feedback: LaunchFeedback) -> Case:
    """Draw cases of `op` on `device`."""
    limit = draw(ELEMENT_LIMITS)
    plan = draw(_plans(op, device, feedback, limit).filter(op.allows))
    configs = {kernel: draw(st.integers(0, count - 1)) for kernel, count in feedback.configs.items()}
    dtype = draw(st.sampled_from(_dtypes(op)))
    layouts = draw(_drawn_layouts(op, plan.absent))
    values = draw(st.sampled_from((ValueDistribution.NORMAL, *values_of(op))))
    if not dtype.is_differentiable and values is ValueDistribution.NAN_TAINTED:
        values = ValueDistribution.NORMAL  # the other types are not tainted: some have no infinity
    plan = draw(_with_gradients(op, replace(plan, dtype=dtype)))
    if op.differentiable(plan) and not op.wanted_gradients(plan):
        layouts["grad"] = Layout.CONTIGUOUS
    seed = draw(SEEDS)
    usual = replace(
        plan,
        dtype=dtype,
        layouts={name: layout for name, layout in layouts.items() if layout is not Layout.CONTIGUOUS},
        values=values,
        configs={kernel: index for kernel, index in configs.items() if index},
        seed=seed,
    )
    match draw(scales(op)):
        case Scale.USUAL:
            return draw(with_picked_configs(op, usual, feedback)) if op.host_configs else usual
        case Scale.LONG:
            return draw(long_cases(op, _near_one(usual)))
        case Scale.OVERSIZED:
            return draw(oversized_cases(op, _near_one(usual)))


def _near_one(case: Case) -> Case:
    """Return the case with usual values if they are far from one.

    Their digits depend on how the kernel rounds, which only an exact run tells from a wrong algorithm.  Long cases have
    none.
    """
    return replace(case, values=ValueDistribution.NORMAL) if case.values in FAR_FROM_ONE else case


@st.composite
def _drawn_layouts(draw: st.DrawFn, op: Op, absent: tuple[str, ...]) -> dict[str, Layout]:
    """Draw a usual layout for each tensor and for the cotangents, and in some cases a rare one for one of them."""
    names = (*(name for name in op.inputs if name not in absent and _has_usual_layouts(op, name)), "grad")
    layouts = {name: draw(_layouts(usual_layouts_of(op, name))) for name in names}
    if draw(st.integers(0, RARE_LAYOUT_ONE_IN - 1)) == RARE_LAYOUT_ONE_IN - 1:
        rare = _rare_layouts(op, absent)
        name, possible = rare[draw(st.integers(0, len(rare) - 1))]
        layouts[name] = draw(st.sampled_from(possible))
    return layouts


def _has_usual_layouts(op: Op, name: str) -> bool:
    return isinstance(op.inputs[name], Tensor) or len(usual_layouts_of(op, name)) > 1


def _rare_layouts(op: Op, absent: tuple[str, ...]) -> tuple[tuple[str, tuple[Layout, ...]], ...]:
    """Return the inputs that may have a layout that only some cases have, and `grad`, which always may."""
    by_name = {
        name: tuple(layout for layout in layouts_of(op, name) if layout not in usual_layouts_of(op, name))
        for name in (*op.inputs, "grad")
        if name not in absent
    }
    return tuple((name, layouts) for name, layouts in by_name.items() if layouts)


@st.composite
def _with_gradients(draw: st.DrawFn, op: Op, case: Case) -> Case:
    """Draw the gradients that a case asks for."""
    names = op.differentiable(case)
    match draw(WANTED) if names else Wanted.ALL:
        case Wanted.ALL:
            return case
        case Wanted.SOME:
            changed = replace(case, frozen=tuple(sorted(name for name in names if draw(st.booleans()))))
        case Wanted.NONE:
            changed = replace(case, frozen=tuple(sorted(names)))
        case Wanted.NO_GRAD:
            changed = replace(case, grad_mode=GradMode.NO_GRAD)
    return changed if op.allows(changed) else case


def scales(op: Op) -> st.SearchStrategy[Scale]:
    """Draw the scale: for each set of growing dims one case in so many is oversized, and a few are long."""
    oversized = min(len(growing_dim_sets(op)), OVERSIZED_ONE_IN // 2)
    return _scales(SCALE_DRAWS // LONG_ONE_IN * bool(long_dims(op)), SCALE_DRAWS // OVERSIZED_ONE_IN * oversized)


@lru_cache(maxsize=256)
def _scales(long: int, oversized: int) -> st.SearchStrategy[Scale]:
    usual = SCALE_DRAWS - long - oversized
    return st.sampled_from((Scale.USUAL,) * usual + (Scale.LONG,) * long + (Scale.OVERSIZED,) * oversized)


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
        high = op.largest_size(name, drawn, limit)
        context = SizeContext(sm_count=sm_count, feedback=feedback, drawn=drawn)
        choices: tuple[Sequence[int], ...] = (*families(dim, high, context), range(dim.low, high + 1))
        sizes = choices[draw(st.integers(0, len(choices) - 1))]  # two integers: `one_of` would cost a millisecond
        drawn[name] = sizes[draw(st.integers(0, len(sizes) - 1))]
    return drawn


def _dtypes(op: Op) -> tuple[DType, ...]:
    return tuple(sorted(op.dtypes, key=DTYPES.index))


@lru_cache(maxsize=256)
def _layouts(possible: tuple[Layout, ...]) -> st.SearchStrategy[Layout]:
    uncommon = tuple(layout for layout in possible if layout is not Layout.CONTIGUOUS)
    return st.sampled_from((Layout.CONTIGUOUS,) * max(LEAST_CONTIGUOUS, len(uncommon)) + uncommon)


def _medium(op: Op) -> Mapping[str, int]:
    fitting = (sizes for sizes in map(op.dims_of, SCOUT_SIZES) if op.largest_input(sizes) <= SCOUT_ELEMENTS)
    return next(fitting, op.dims_of(SCOUT_SIZES[-1]))
