"""The tensors of a case, made on the CPU from its seed: values first, then layout.

Every tensor has its own generator, seeded by the case's seed and the tensor's name.  So leaving out one tensor changes
no other.
"""

import hashlib
import math
import random
from collections.abc import Callable, Mapping
from math import prod

import numpy as np
import numpy.typing as npt
import torch

from harness.errors import SuiteError
from harness.execution import counter_numbers
from harness.execution.counter_numbers import CPU
from harness.execution.integer_inputs import INTEGER_DTYPES, draw_integers, draw_segments, draw_sizes
from harness.execution.layouts import broadcast, lay_out, poison
from harness.execution.nan_taint import NanTaint, nan_taint
from harness.execution.oversized_tensors import LARGE as LARGE_ELEMENTS
from harness.execution.oversized_tensors import sparse
from harness.execution.poison import SAME_SIZE
from harness.execution.result_forms import named
from harness.execution.suite_arguments import arguments_for
from harness.model.case import Case, DType, Layout, Scale, ValueDistribution
from harness.model.input_spec import Built, Draw, Input, Integers, Segments, Shaped, Sizes, Tensor
from harness.model.op import Op

TORCH_DTYPES: Mapping[DType, torch.dtype] = {dtype: getattr(torch, dtype.torch_name) for dtype in DType}
BUILT_DTYPES: Mapping[str, torch.dtype] = {**INTEGER_DTYPES, **TORCH_DTYPES}
EIGHT_BITS = frozenset({DType.FP8_E4M3, DType.FP8_E5M2, DType.FP8_E8M0})
COUNTED_DTYPES = frozenset({torch.float32, torch.bfloat16, torch.float16})
SHIFT = 3.0
LARGE = 100.0
TINY = 1e-4
HUGE = 10_000.0
LARGEST_ROW_EXPONENT = 12
"""Rows of a case of scaled rows differ by powers of two from 2^-12 to 2^12, and so do drawn powers of two."""
WIDE_EXPONENT = 96
"""Extreme numbers reach 2^96: products of two overflow float32."""
INFINITE_SHARES = (0.0, 1 / 8, 1 / 2)
"""The share of logits and masks that are minus infinity, one of these by the seed, besides whole rows."""
INTEGER_DEVIATION = 32.0
"""The standard deviation of integers, for numbers with a deviation of 1: most fit in eight bits."""
LARGEST_EXPONENT = 16
"""Powers of two are drawn up to 2^16 and down to 2^-16, so that products of scaled numbers stay finite."""


MOVED: Mapping[ValueDistribution, Callable[[torch.Tensor], torch.Tensor]] = {
    ValueDistribution.NORMAL: lambda values: values,
    ValueDistribution.NAN_TAINTED: lambda values: values,
    ValueDistribution.SHIFTED: lambda values: values + SHIFT,
    ValueDistribution.NEGATIVE: lambda values: values - SHIFT,
    ValueDistribution.LARGE: lambda values: values * LARGE,
    ValueDistribution.HUGE: lambda values: values * HUGE,
    ValueDistribution.TIES: lambda values: (2 * values).round() / 2,
}
"""What each distribution makes of normally distributed numbers, if that needs neither their type nor more numbers."""


def _shares(values: torch.Tensor) -> torch.Tensor:
    weights = torch.softmax(values, -1) * (values != 0)
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


def _one_hot(values: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(values).scatter(-1, values.argmax(-1, keepdim=True), 1.0) if values.numel() else values


TRANSFORMED: Mapping[Draw, Callable[[torch.Tensor], torch.Tensor]] = {
    Draw.VALUES: lambda values: values,
    Draw.UNIT: torch.sigmoid,
    Draw.LOG_UNIT: torch.nn.functional.logsigmoid,
    Draw.POSITIVE: torch.nn.functional.softplus,
    Draw.SHARES: _shares,
    Draw.LOG_SHARES: lambda values: torch.log_softmax(values, -1),
    Draw.NORMALISED: lambda values: torch.nn.functional.normalize(values, dim=-1),
    Draw.ONE_HOT: _one_hot,
}
"""What an input's `Draw` makes of numbers, where it needs no more of them."""


def computing_type(dtype: DType) -> torch.dtype:
    """Return the type in which the eager baseline of a case computes: torch has no arithmetic in eight bits."""
    return TORCH_DTYPES[dtype] if dtype.is_differentiable else torch.float32


def rounding_unit(dtype: DType) -> float:
    """Return the unit in the last place of the intermediates of a kernel, at 1: bfloat16's for eight bits."""
    return torch.finfo(torch.bfloat16 if dtype in EIGHT_BITS else computing_type(dtype)).eps


def make_inputs(op: Op, case: Case, large_on: torch.device | None = CPU) -> dict[str, torch.Tensor | None]:
    """Return the inputs by name, None for absent ones; differentiable ones that are not frozen are leaves.

    Tensors that are drawn by counter may be made on another device, `large_on`; None makes them of zeros, which take
    no memory.
    """
    tensors: dict[str, torch.Tensor | None] = {}
    sampled = _sampled_inputs(op, case)
    taint, differentiable = _nan_taint(op, case), op.differentiable(case)
    for name, declared in op.inputs.items():
        if name in case.absent:
            tensors[name] = None
            continue
        values = sampled.get(name)
        if values is None:
            values = values_of_input(op, case, name, tensors, large_on)
        if taint is not None and isinstance(declared, Tensor) and (declared.dtype or case.dtype).is_differentiable:
            taint.taint(declared, values)
        tensors[name] = values
    unread = {} if case.scale is Scale.OVERSIZED else undefined_cells(op, case, tensors)
    for name, values in tensors.items():
        if values is None:
            continue
        if name in unread:
            poison(values, unread[name])
        # A sample keeps the layout that its user gave it.
        shaped = values if name in sampled else broadcast(values, broadcast_axes(op, case, name))
        tensors[name] = lay_out(shaped, case.layout_of(name)).requires_grad_(
            name in differentiable and name not in case.frozen
        )
    return tensors


def _sampled_inputs(op: Op, case: Case) -> Mapping[str, torch.Tensor]:
    """Return the inputs that the op's sample has; none if the case has other values or sizes."""
    if case.values is not ValueDistribution.SAMPLE or op.sample is None:
        return {}
    by_name = {name: value for name, value in op.sample().items() if name in op.inputs}
    if any(tuple(value.shape) != op.inputs[name].extents(case.dims) for name, value in by_name.items()):
        return {}
    return {name: value.detach().to(_type_of(op.inputs[name], case)) for name, value in by_name.items()}


def _type_of(declared: Input, case: Case) -> torch.dtype:
    match declared:
        case Tensor():
            return TORCH_DTYPES[declared.dtype or case.dtype]
        case Integers() | Segments() | Sizes() | Built():
            return BUILT_DTYPES[declared.dtype]


def values_of_input(
    op: Op, case: Case, name: str, before: Mapping[str, torch.Tensor | None], large_on: torch.device | None = CPU
) -> torch.Tensor:
    """Return an input's values, contiguous; `before` are the inputs that are declared before it."""
    declared, dims = op.inputs[name], case.dims
    match declared:
        case Tensor():
            values = draw(
                case, name, declared.extents(dims), _type_of(declared, case), declared.draw, large_on=large_on
            )
            return in_order(values, distinct=declared.distinct, ascending=declared.ascending)
        case Integers():
            is_oversized = case.scale is Scale.OVERSIZED
            is_sparse = _is_sparse(case, declared.extents(dims))
            return draw_integers(
                declared, dims, generator_of(case, name), is_sparse=is_sparse, is_oversized=is_oversized
            )
        case Segments():
            return draw_segments(declared, dims, generator_of(case, name))
        case Sizes():
            return draw_sizes(declared, dims, generator_of(case, name))
        case Built():
            return _built(op, case, name, declared, before)


def broadcast_axes(op: Op, case: Case, name: str) -> tuple[int, ...]:
    """Return the axes of an input along which this case has one element; any that the input declares, at least one."""
    declared = op.inputs[name]
    if case.layout_of(name) is not Layout.BROADCAST or not isinstance(declared, Shaped):
        return ()
    axes = [axis for axis, extent in enumerate(declared.shape) if extent in declared.broadcasts]
    chosen = int(torch.randint(1, 1 << len(axes), (), generator=generator_of(case, f"broadcast:{name}")))
    return tuple(axis for number, axis in enumerate(axes) if chosen >> number & 1)


def _built(op: Op, case: Case, name: str, declared: Built, before: Mapping[str, torch.Tensor | None]) -> torch.Tensor:
    shape, dtype = declared.extents(case.dims), BUILT_DTYPES[declared.dtype]
    if _is_sparse(case, shape):
        return sparse(shape, dtype)
    known = {"generator": generator_of(case, name), **before}
    value = declared.by(**arguments_for(declared.by, known, op.settings(case)))
    if not isinstance(value, torch.Tensor) or tuple(value.shape) != shape or value.dtype is not dtype:
        form = f"{tuple(value.shape)} of {value.dtype}" if isinstance(value, torch.Tensor) else repr(value)
        raise SuiteError(f"{op.id}: the function of the input {name!r} returns {form}, not {shape} of {dtype}")
    return value.detach().contiguous()


def without_undefined_cells(op: Op, case: Case, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors with zeros in the cells that the library must not read, as the definition gets them."""
    return without_cells(tensors, {} if case.scale is Scale.OVERSIZED else undefined_cells(op, case, tensors))


def without_cells(tensors: dict[str, torch.Tensor], masks: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors with zeros in the cells of their masks, by name; a tensor without a mask stays the same."""
    return {
        name: torch.where(masks[name], torch.zeros((), dtype=value.dtype), value.detach()) if name in masks else value
        for name, value in tensors.items()
    }


def undefined_outputs(op: Op, case: Case, inputs: Mapping[str, torch.Tensor | None]) -> dict[str, torch.Tensor]:
    """Return by output the mask of the cells that the op leaves undefined, for outputs that have any."""
    if op.defined is None or case.scale is Scale.OVERSIZED:
        return {}
    masks = op.defined(**arguments_for(op.defined, inputs, op.settings(case)))
    return {name: ~mask.to(torch.bool) for name, mask in named(masks).items()}


def undefined_cells(op: Op, case: Case, tensors: Mapping[str, torch.Tensor | None]) -> dict[str, torch.Tensor]:
    """Return by input the mask of the cells that the library must not read, for inputs that declare which it may."""
    masks: dict[str, torch.Tensor] = {}
    known = {**dict.fromkeys(op.inputs), **tensors}
    for name, declared in op.inputs.items():
        value = known[name]
        if isinstance(declared, Tensor) and declared.defined is not None and value is not None:
            mask = declared.defined(**arguments_for(declared.defined, known, op.settings(case)))
            masks[name] = ~torch.as_tensor(mask, dtype=torch.bool).expand(value.shape)
    return masks


def independent_of_taint(op: Op, case: Case, result: str) -> npt.NDArray[np.bool_] | None:
    """Return the mask of a result's cells that the taint must not reach; None for all.

    Outputs have no such mask: their definition shows which cells the taint reaches.
    """
    taint = _nan_taint(op, case)
    name = result[2:] if result.startswith("d:") else ""
    declared = op.inputs.get(name)
    if taint is None or not isinstance(declared, Tensor):
        return None
    axes = broadcast_axes(op, case, name)
    cells = broadcast(taint.independent_cells(declared, case.dims), axes)
    # A gradient sums over an axis that broadcasts, so the taint may reach all of it.
    return (cells & (not axes)).numpy()


def _nan_taint(op: Op, case: Case) -> NanTaint | None:
    # The old word stays in the name of the generator: it decides what equal seeds draw.
    return nan_taint(op, case, generator_of(case, "spoiled:")) if case.values is ValueDistribution.NAN_TAINTED else None


def make_cotangents(
    case: Case, outputs: Mapping[str, torch.Tensor], large_on: torch.device | None = CPU
) -> dict[str, torch.Tensor]:
    """Return a random cotangent for each output, in the layout of `grad`; zeros for outputs of integers."""

    def cotangent(name: str, output: torch.Tensor) -> torch.Tensor:
        shape = tuple(output.shape)
        if _is_sparse(case, shape):
            return sparse(shape, output.dtype)
        if not output.is_floating_point():
            return torch.zeros(shape, dtype=output.dtype)
        name = f"grad:{name}"
        is_by_counter = is_counted(shape, output.dtype)
        if is_by_counter and large_on is None:
            return lay_out(sparse(shape, output.dtype), case.layout_of("grad"))
        values = _counted(case, name, shape, large_on or CPU) if is_by_counter else _normal(case, name, shape)
        return lay_out(in_range(values, output.dtype), case.layout_of("grad"))

    return {name: cotangent(name, output) for name, output in outputs.items()}


def draw(  # noqa: PLR0913 - each decides the numbers, or where they are
    case: Case,
    name: str,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    how: Draw = Draw.VALUES,
    *,
    large_on: torch.device | None = CPU,
) -> torch.Tensor:
    """Return a contiguous tensor: numbers of the case's distribution, transformed as the input's `Draw` says."""
    if _is_sparse(case, shape):
        return sparse(shape, dtype)
    if how is Draw.VALUES and case.values in MOVED and is_counted(shape, dtype):
        if large_on is None:
            return sparse(shape, dtype)
        return in_range(MOVED[case.values](_counted(case, name, shape, large_on)), dtype)
    values = _numbers(case, name, shape, dtype)
    match how:
        case Draw.LOGITS:
            values = values.masked_fill(_infinite(case, name, shape), -math.inf)
        case Draw.MASK:
            values = torch.zeros(shape).masked_fill(_infinite(case, name, shape), -math.inf)
        case Draw.POWERS:
            most = LARGEST_ROW_EXPONENT
            values = torch.exp2((most / 3 * _normal(case, name, shape)).round().clamp(-most, most))
        case _:
            values = TRANSFORMED[how](values)
    return in_range(values, dtype)


def in_order(values: torch.Tensor, *, distinct: bool, ascending: bool) -> torch.Tensor:
    """Return the numbers sorted along the last axis, or with ties moved to the next numbers of the type, or both."""
    if not values.dim() or not (distinct or ascending):
        return values
    ordered, places = values.sort(dim=-1)
    if distinct:
        ordered = _without_ties(ordered)
    return ordered if ascending else torch.empty_like(ordered).scatter_(-1, places, ordered)


def _without_ties(ordered: torch.Tensor) -> torch.Tensor:
    """Return sorted numbers, each moved up as far as it takes to exceed the one before."""
    if not ordered.is_floating_point():
        return ordered
    # The bits of a type order its numbers as integers do, from the largest negative number on.
    integer = SAME_SIZE[ordered.element_size()]
    least = torch.iinfo(integer).min
    bits = ordered.contiguous().view(integer).to(torch.int64)
    ranks = torch.where(bits < 0, least - bits, bits)
    steps = torch.arange(ranks.shape[-1])
    ranks = (ranks - steps).cummax(dim=-1).values + steps
    return torch.where(ranks < 0, least - ranks, ranks).to(integer).view(ordered.dtype)


def in_range(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers in another type, none of them beyond its range: eight bits reach 448, or 127."""
    if dtype is torch.float8_e8m0fnu:
        return torch.exp2((2 * values).round().clamp(-LARGEST_EXPONENT, LARGEST_EXPONENT)).to(dtype)
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        return (INTEGER_DEVIATION * values).to(torch.float64).round().clamp(limits.min, limits.max).to(dtype)
    if dtype.itemsize == 1:
        values = values.clamp(torch.finfo(dtype).min, torch.finfo(dtype).max)
    return values.to(dtype)


def _is_sparse(case: Case, shape: tuple[int, ...]) -> bool:
    return case.scale is Scale.OVERSIZED and prod(shape) > LARGE_ELEMENTS


def _numbers(case: Case, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    generator = generator_of(case, name)
    values = torch.randn(shape, generator=generator, dtype=torch.float32)
    if dtype is torch.float64:  # with digits that float32 does not have
        values = values + torch.randn(shape, generator=generator, dtype=torch.float64) * 2.0**-25
    if case.values in MOVED:
        return MOVED[case.values](values)
    match case.values:
        case ValueDistribution.TINY:
            values = values * max(TINY, torch.finfo(dtype).smallest_normal if dtype.is_floating_point else 0.0)
        case ValueDistribution.ZEROS:
            values = values * (torch.rand(shape, generator=generator) > 1 / 3)
            if values.dim() > 1:
                rows = torch.rand(values.shape[:-1], generator=generator) > 1 / 8
                values = values * rows[..., None]
        case ValueDistribution.SCALED_ROWS:
            rows_of = (*shape[:-1], 1) if len(shape) > 1 else shape
            most = LARGEST_ROW_EXPONENT
            values = values * torch.exp2(torch.randint(-most, most + 1, rows_of, generator=generator))
        case ValueDistribution.EXTREME:
            is_wide = not dtype.is_floating_point or torch.finfo(dtype).max > 2.0**WIDE_EXPONENT
            most = WIDE_EXPONENT if is_wide else LARGEST_ROW_EXPONENT
            exponents = torch.randint(most + 1, shape, generator=generator)
            values = values * torch.exp2(exponents * (torch.rand(shape, generator=generator) < 1 / 4))
        case _:  # those of MOVED
            pass
    return values


def _infinite(case: Case, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Return the mask of elements that are minus infinity: scattered ones, whole rows, rows but for one element."""
    generator = generator_of(case, f"infinite:{name}")
    share = INFINITE_SHARES[int(torch.randint(len(INFINITE_SHARES), (), generator=generator))]
    infinite = torch.rand(shape, generator=generator) < share
    if len(shape) > 1 and prod(shape) and share:
        rows = torch.rand(shape[:-1], generator=generator)[..., None]
        but_one = torch.rand(shape, generator=generator).argmax(-1, keepdim=True) != torch.arange(shape[-1])
        infinite = infinite | (rows < 1 / 8) | (rows > 7 / 8) & but_one
    return infinite


def _normal(case: Case, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape, generator=generator_of(case, name), dtype=torch.float32)


def is_counted(shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    """Return True if a tensor of normal numbers is drawn by counter, where its distribution allows that.

    The steps that follow are exact, or single roundings, so every device gets the same bits.
    """
    return prod(shape) > counter_numbers.LARGE and dtype in COUNTED_DTYPES


def _counted(case: Case, name: str, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    return counter_numbers.normal(seed_of(case.seed, name), shape, device)


def generator_of(case: Case, name: str) -> torch.Generator:
    """Return the generator of one tensor, or of whatever else has the name, by the seed of the case."""
    return torch.Generator().manual_seed(seed_of(case.seed, name))


def seed_of(seed: int, name: str) -> int:
    """Return the seed of one tensor's generator; a cotangent's name is `grad:` and its output's name."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:7], "big")


def seed_globals(case: Case) -> None:
    """Seed the global generators, from which host code may draw, for example for dropout.

    `torch.manual_seed` is too slow: it records the stack for each missing kind of device.  That takes a tenth of a
    small case.
    """
    seed = seed_of(case.seed, "host code")
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    np.random.seed(seed % (1 << 32))  # noqa: NPY002 - libraries use the global generator


def detached(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a contiguous detached copy in another type."""
    return values.detach().to(dtype, copy=True).contiguous()
