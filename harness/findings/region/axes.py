"""The axes around a smallest case, and the case at each point on them.

Owns what may change in a case.  `harness.findings.region.size_probes` decides which sizes to try.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from harness.model.case import CallContext, Case, GradMode, Layout
from harness.model.input_spec import Tensor
from harness.model.op import Op
from harness.model.region import SMS, Axis, AxisKind, Sizes
from harness.model.run import Launch, Run
from harness.search.sort_key import dim_order, layouts_of, values_of

V = TypeVar("V")

MAX_SMS = 1024
"""Three times the SM count of the largest GPU today."""

BEYOND_FACTOR = 4
"""A dim that may exceed its usual range is tried up to this multiple of its size in the smallest case."""

GRAD = "grad"
"""The name of the cotangents in `Case.layouts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The smallest case with one setting changed, or unchanged."""

    axis: Axis
    value: str
    case: Case


def numeric_axes(op: Op, case: Case) -> tuple[Axis, ...]:
    """Return the axes of the op's dims and of the SM counts."""
    return (
        *(_dim(op, case, name) for name in dim_order(op)),
        Axis(kind=AxisKind.SM_COUNT, name=SMS, low=1, high=max(MAX_SMS, case.device.sm_count), is_open=True),
    )


def case_at(case: Case, sizes: Sizes) -> Case:
    """Return the case with other sizes."""
    dims = {name: sizes[name] for name in case.dims}
    return replace(case, dims=dims, device=case.device.with_sm_count(sizes[SMS]))


def setting_changes(op: Op, case: Case, run: Run, kernel: str) -> Iterator[Change]:
    """Yield every legal value of each setting of the case; `run` is the case's own, `kernel` the one at fault."""
    inputs = (*_gradients(op, case), *_inputs(op, case), *_environment(op, case), *_contexts(case, run))
    for change in (*_configs(case, run, kernel), *_dtypes(op, case), *_options(op, case), *inputs):
        if op.allows(change.case):
            yield change


def config_text(launch: Launch) -> str:
    """Return the config without options that are not set, which Triton prints as `maxnreg: None`."""
    return ", ".join(part for part in launch.config.split(", ") if not part.endswith(": None"))


def _dim(op: Op, case: Case, name: str) -> Axis:
    dim = op.dims[name]
    highest = dim.highest(case.scale)
    grown = highest > dim.high
    high = min(highest, max(dim.high, BEYOND_FACTOR * case.dims[name])) if grown else dim.high
    return Axis(kind=AxisKind.DIM, name=name, low=dim.low, high=high, choices=tuple(sorted(dim.choices)), is_open=grown)


def _change(case: Case, kind: AxisKind, name: str, value: str, **fields: Any) -> Change:
    """Return the change of some fields of the case, which is one value of one axis."""
    return Change(axis=Axis(kind=kind, name=name), value=value, case=replace(case, **fields))


def _configs(case: Case, run: Run, kernel: str) -> Iterator[Change]:
    """Yield the configs of the kernel at fault, or of each kernel if none is named.

    Their values are provisional names: the text of a config is known once it has run.
    """
    tuned = {launch.kernel: launch.config_count for launch in run.launches if launch.config_count > 1}
    for name in [kernel] if kernel else sorted(tuned):
        rest = _without(case.configs, name)
        for index in range(tuned.get(name, 0)):
            configs = {**rest, name: index} if index else rest
            yield _change(case, AxisKind.CONFIG, name, f"config {index + 1}", configs=configs)


def _dtypes(op: Op, case: Case) -> Iterator[Change]:
    for dtype in op.dtypes:
        yield _change(case, AxisKind.DTYPE, "dtype", str(dtype), dtype=dtype)


def _options(op: Op, case: Case) -> Iterator[Change]:
    for name, choices in op.options.items():
        for setting in choices:
            yield _change(case, AxisKind.OPTION, name, str(setting), options={**case.options, name: setting})


def _gradients(op: Op, case: Case) -> Iterator[Change]:
    """Yield the modes of autograd, and the gradient of each input, wanted and not."""
    names = op.differentiable(case)
    for mode in GradMode if names else ():
        yield _change(case, AxisKind.GRAD_MODE, "autograd", str(mode), grad_mode=mode)
    for name in names if case.grad_mode is GradMode.ENABLED else ():
        rest = tuple(other for other in case.frozen if other != name)
        yield _change(case, AxisKind.GRADIENT, name, "wanted", frozen=rest)
        yield _change(case, AxisKind.GRADIENT, name, "not wanted", frozen=tuple(sorted((*rest, name))))


def _environment(op: Op, case: Case) -> Iterator[Change]:
    """Yield each declared environment variable unset, and with each value."""
    for name, values in op.environment.items():
        rest = tuple(variable for variable in case.environment if variable[0] != name)
        yield _change(case, AxisKind.ENVIRONMENT, name, "unset", environment=rest)
        for value in values:
            chosen = tuple(sorted((*rest, (name, value))))
            yield _change(case, AxisKind.ENVIRONMENT, name, value, environment=chosen)


def _contexts(case: Case, run: Run) -> Iterator[Change]:
    """Yield every context, if a kernel needs scratch memory: the allocator is what depends on it."""
    if case.context is not CallContext.MAIN or any(launch.scratch_bytes for launch in run.launches):
        for context in CallContext:
            yield _change(case, AxisKind.CONTEXT, "context", str(context), context=context)


def _inputs(op: Op, case: Case) -> Iterator[Change]:
    """Yield the presence of optional inputs, the layout of each input that is present, and the values."""
    for name in op.optional:
        rest = tuple(other for other in case.absent if other != name)
        yield _change(case, AxisKind.ABSENT, name, "given", absent=rest)
        absent, frozen = tuple(sorted((*rest, name))), tuple(other for other in case.frozen if other != name)
        layouts = _without(case.layouts, name)
        yield _change(case, AxisKind.ABSENT, name, "absent", absent=absent, layouts=layouts, frozen=frozen)
    tensors = (name for name, spec in op.inputs.items() if isinstance(spec, Tensor) and name not in case.absent)
    for name in (*tensors, GRAD):
        rest = _without(case.layouts, name)
        for layout in layouts_of(op, name):
            layouts = rest if layout is Layout.CONTIGUOUS else {**rest, name: layout}
            yield _change(case, AxisKind.LAYOUT, name, str(layout), layouts=layouts)
    for values in values_of(op):
        yield _change(case, AxisKind.VALUES, "values", str(values), values=values)


def _without(named: Mapping[str, V], name: str) -> dict[str, V]:
    return {other: value for other, value in named.items() if other != name}
