"""The tensors of a case, made on the CPU from its seed: values first, then layout.

Every tensor has its own generator, seeded by the case's seed and the tensor's name.  So leaving out one tensor changes
no other.  The memory around an offset or strided tensor holds NaN, so a lane that lands there shows in results.
"""

import hashlib
import random
from collections.abc import Mapping
from math import prod

import numpy as np
import numpy.typing as npt
import torch

from harness.errors import CannotExecute
from harness.execution.nan_taint import NanTaint, nan_taint
from harness.execution.oversized_tensors import LARGE as LARGE_ELEMENTS
from harness.execution.oversized_tensors import sparse
from harness.model.case import FEWEST_BATCH_DIMS, Case, DType, Layout, Scale, ValueDistribution
from harness.model.input_spec import Draw, Integer, Integers, Segments, Tensor, extent_of
from harness.model.op import Op

TORCH_DTYPES: Mapping[DType, torch.dtype] = {dtype: getattr(torch, dtype.torch_name) for dtype in DType}
INTEGER_DTYPES: Mapping[Integer, torch.dtype] = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
}

EIGHT_BITS = frozenset({DType.FP8_E4M3, DType.FP8_E5M2, DType.FP8_E8M0})
SHIFT = 3.0
LARGE = 100.0
TINY = 1e-4
INTEGER_DEVIATION = 32.0
"""The standard deviation of integers, for numbers with a deviation of 1: most fit in eight bits."""
LARGEST_EXPONENT = 16
"""Powers of two are drawn up to 2^16 and down to 2^-16, so that products of scaled numbers stay finite."""
OFFSET_ELEMENTS = 67
"""Odd, so that an offset tensor's address is not a multiple of 16 bytes and Triton specialises for that."""
GAP_ELEMENTS = 5
AT_EDGES = (1 / 8, 1 / 8, 1.0)
"""The share of integers at edges of tiles, one of these by the seed."""
LEAST_TILE = 4
"""The smallest tile with edges for integers, as a power of two: 2^4."""
IGNORED_SHARES = (0.0, 1 / 8, 1 / 8, 1.0)
"""The share of integers that are to be ignored, one of these by the seed."""
FEW = 1024
"""The number of elements at each end of an oversized tensor of integers that hold the largest one."""
SHORT = 8
"""The average length of sequences whose boundaries are all near one end."""


def computing_type(dtype: DType) -> torch.dtype:
    """Return the type in which the eager baseline of a case computes: torch has no arithmetic in eight bits."""
    return TORCH_DTYPES[dtype] if dtype.is_differentiable else torch.float32


def rounding_unit(dtype: DType) -> float:
    """Return the unit in the last place of the intermediates of a kernel, at 1: bfloat16's for eight bits."""
    return torch.finfo(torch.bfloat16 if dtype in EIGHT_BITS else computing_type(dtype)).eps


def make_inputs(op: Op, case: Case) -> dict[str, torch.Tensor | None]:
    """Return the inputs by name, None for absent ones; differentiable ones that are not frozen are leaves."""
    tensors: dict[str, torch.Tensor | None] = {}
    taint, differentiable = _nan_taint(op, case), op.differentiable(case)
    for name, declared in op.inputs.items():
        if name in case.absent:
            tensors[name] = None
            continue
        match declared:
            case Tensor():
                dtype = TORCH_DTYPES[declared.dtype or case.dtype]
                values = draw(case, name, declared.extents(case.dims), dtype, declared.draw)
                if taint is not None and (declared.dtype or case.dtype).is_differentiable:
                    taint.taint(declared, values)
                tensors[name] = lay_out(values, case.layout_of(name)).requires_grad_(
                    name in differentiable and name not in case.frozen
                )
            case Integers():
                tensors[name] = draw_integers(case, name, declared)
            case Segments():
                tensors[name] = draw_segments(case, name, declared)
    return tensors


def independent_of_taint(op: Op, case: Case, result: str) -> npt.NDArray[np.bool_] | None:
    """Return the mask of a result's cells that the taint must not reach; None for all.

    Outputs have no such mask: their definition shows which cells the taint reaches.
    """
    taint = _nan_taint(op, case)
    declared = op.inputs[result[2:]] if result.startswith("d:") else None
    if taint is None or not isinstance(declared, Tensor):
        return None
    return taint.independent_cells(declared, case.dims).numpy()


def _nan_taint(op: Op, case: Case) -> NanTaint | None:
    # The old word stays in the name of the generator: it decides what equal seeds draw.
    return nan_taint(op, case, _generator(case, "spoiled:")) if case.values is ValueDistribution.NAN_TAINTED else None


def make_cotangents(case: Case, outputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a random cotangent for each output, in the layout of `grad`; zeros for outputs of integers."""

    def cotangent(name: str, output: torch.Tensor) -> torch.Tensor:
        shape = tuple(output.shape)
        if _is_sparse(case, shape):
            return sparse(shape, output.dtype)
        if not output.is_floating_point():
            return torch.zeros(shape, dtype=output.dtype)
        values = in_range(_normal(case, f"grad:{name}", shape), output.dtype)
        return lay_out(values, case.layout_of("grad"))

    return {name: cotangent(name, output) for name, output in outputs.items()}


def draw(case: Case, name: str, shape: tuple[int, ...], dtype: torch.dtype, how: Draw = Draw.VALUES) -> torch.Tensor:
    """Return a contiguous tensor: numbers of the case's distribution, transformed as the input's `Draw` says."""
    if _is_sparse(case, shape):
        return sparse(shape, dtype)
    values = _numbers(case, name, shape, dtype)
    match how:
        case Draw.VALUES:
            pass
        case Draw.UNIT:
            values = torch.sigmoid(values)
        case Draw.LOG_UNIT:
            values = torch.nn.functional.logsigmoid(values)
        case Draw.POSITIVE:
            values = torch.nn.functional.softplus(values)
        case Draw.SHARES:
            weights = torch.softmax(values, -1) * (values != 0)
            values = weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
        case Draw.LOG_SHARES:
            values = torch.log_softmax(values, -1)
        case Draw.NORMALISED:
            values = torch.nn.functional.normalize(values, dim=-1)
    return in_range(values, dtype)


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
    generator = _generator(case, name)
    values = torch.randn(shape, generator=generator, dtype=torch.float32)
    if dtype is torch.float64:  # with digits that float32 does not have
        values = values + torch.randn(shape, generator=generator, dtype=torch.float64) * 2.0**-25
    match case.values:
        case ValueDistribution.NORMAL | ValueDistribution.NAN_TAINTED:
            pass
        case ValueDistribution.SHIFTED:
            values = values + SHIFT
        case ValueDistribution.NEGATIVE:
            values = values - SHIFT
        case ValueDistribution.LARGE:
            values = values * LARGE
        case ValueDistribution.TINY:
            values = values * max(TINY, torch.finfo(dtype).smallest_normal if dtype.is_floating_point else 0.0)
        case ValueDistribution.ZEROS:
            values = values * (torch.rand(shape, generator=generator) > 1 / 3)
            if values.dim() > 1:
                rows = torch.rand(values.shape[:-1], generator=generator) > 1 / 8
                values = values * rows[..., None]
    return values


def _normal(case: Case, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape, generator=_generator(case, name), dtype=torch.float32)


def draw_integers(case: Case, name: str, declared: Integers) -> torch.Tensor:
    """Return uniform integers, of which an eighth, or by the seed all, are at edges of tiles.

    If the input has a value to ignore, none, an eighth or all of the elements have it, by the seed.
    """
    generator = _generator(case, name)
    low, high = extent_of(declared.low, case.dims), extent_of(declared.high, case.dims)
    shape, dtype = declared.extents(case.dims), INTEGER_DTYPES[declared.dtype]
    if _is_sparse(case, shape):
        return _sparse_integers(shape, dtype, low, high)
    integers = torch.randint(low, max(high, low + 1), shape, generator=generator, dtype=dtype)
    at_edges = AT_EDGES[int(torch.randint(len(AT_EDGES), (), generator=generator))]
    integers = torch.where(
        torch.rand(shape, generator=generator) < at_edges, _at_edges(integers, low, high, generator), integers
    )
    if case.scale is Scale.OVERSIZED:  # the largest one is what exceeds 32 bits, times a stride
        integers.view(-1)[:1] = integers.view(-1)[-1:] = max(low, high - 1)
    if declared.ignore is not None:
        share = IGNORED_SHARES[int(torch.randint(len(IGNORED_SHARES), (), generator=generator))]
        integers[torch.rand(shape, generator=generator) < share] = declared.ignore
    return integers


def _sparse_integers(shape: tuple[int, ...], dtype: torch.dtype, low: int, high: int) -> torch.Tensor:
    """Return the integer nearest to zero, with the largest one in the first and the last elements.

    Random numbers for billions of elements take minutes and gigabytes, and few of them are read.
    """
    nearest = min(max(low, 0), high - 1)
    if nearest:
        raise CannotExecute(f"an oversized tensor of integers from {low} to {high}, without zero,")
    integers = sparse(shape, dtype)
    flat = integers.view(-1)
    flat[:FEW] = flat[-FEW:] = high - 1
    return integers


def _at_edges(values: torch.Tensor, low: int, high: int, generator: torch.Generator) -> torch.Tensor:
    """Move each value up to a multiple of a random power of two, where a tile of that size begins, or one below it."""
    most = max(1, high - 1).bit_length()
    bits = torch.randint(min(LEAST_TILE, most - 1), most, values.shape, generator=generator)
    below = torch.randint(2, values.shape, generator=generator)
    at = -(-values.to(torch.int64) >> bits << bits) - below
    return at.clamp(low, max(high - 1, low)).to(values.dtype)


def draw_segments(case: Case, name: str, declared: Segments) -> torch.Tensor:
    """Return random boundaries: by the seed anywhere, or all near one end, so a long sequence has short neighbours.

    If sequences may be empty, boundaries of every other seed may coincide with each other or with an end.
    """
    generator = _generator(case, name)
    total = extent_of(declared.total, case.dims)
    if declared.may_be_empty and int(torch.randint(2, (), generator=generator)):
        return _any_bounds(total, declared.extents(case.dims)[0], generator).to(INTEGER_DTYPES[declared.dtype])
    cuts = declared.extents(case.dims)[0] - 2
    near = min(total - 1, max(cuts, SHORT * cuts))
    start, room = ((0, total - 1), (0, near), (total - 1 - near, near))[int(torch.randint(3, (), generator=generator))]
    chosen = 1 + start + _distinct(room, cuts, generator)
    ends = torch.tensor([total], dtype=torch.int64)
    bounds = torch.cat([torch.zeros(1, dtype=torch.int64), chosen.sort().values, ends])
    return bounds.to(INTEGER_DTYPES[declared.dtype])


def _distinct(below: int, count: int, generator: torch.Generator) -> torch.Tensor:
    """Return so many different integers below a limit."""
    if below <= LARGE_ELEMENTS:
        return torch.randperm(below, generator=generator)[:count]
    # A permutation of billions takes gigabytes.  Of twice as many numbers, some are equal, but never half of them.
    drawn = torch.randint(below, (2 * count,), generator=generator).unique()
    return drawn[torch.randperm(drawn.numel(), generator=generator)[:count]]


def _any_bounds(total: int, count: int, generator: torch.Generator) -> torch.Tensor:
    """Return boundaries of which some often coincide, with each other or with an end."""
    cuts = torch.randint(-total // 4, total + total // 4 + 1, (count,), generator=generator).clamp(0, total)
    cuts[0], cuts[-1] = 0, total
    return cuts.sort().values


def _generator(case: Case, name: str) -> torch.Generator:
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


def lay_out(values: torch.Tensor, layout: Layout) -> torch.Tensor:
    """Return the same values in this memory layout."""
    match layout:
        case Layout.CONTIGUOUS:
            return values
        case Layout.OFFSET:
            count = values.numel()
            around = _nan(count + 2 * OFFSET_ELEMENTS, values.dtype)
            around[OFFSET_ELEMENTS : OFFSET_ELEMENTS + count] = values.reshape(-1)
            return around[OFFSET_ELEMENTS : OFFSET_ELEMENTS + count].view(values.shape)
        case Layout.STRIDED:
            return _strided(values)
        case Layout.TRANSPOSED:
            is_batch = values.dim() >= FEWEST_BATCH_DIMS
            return values.transpose(-3, -2).contiguous().transpose(-3, -2) if is_batch else values
        case Layout.BATCH_STRIDED:
            return _batch_strided(values) if values.dim() >= FEWEST_BATCH_DIMS else values
        case Layout.EXPANDED:
            return values.reshape(-1)[:1].reshape(()).expand(values.shape) if values.numel() else values


def _strided(values: torch.Tensor) -> torch.Tensor:
    if not values.dim():
        return values
    if values.dim() == 1:
        wide = _nan(2 * values.shape[0], values.dtype)
        wide[::2] = values
        return wide[::2]
    columns = values.shape[-1]
    rows = prod(values.shape[:-1])
    wide = _nan(rows * (columns + GAP_ELEMENTS), values.dtype).view(*values.shape[:-1], columns + GAP_ELEMENTS)
    wide[..., :columns] = values
    return wide[..., :columns]


def _batch_strided(values: torch.Tensor) -> torch.Tensor:
    batches, rows, *row = values.shape
    wide = _nan(batches * (rows + 1) * prod(row), values.dtype).view(batches, rows + 1, *row)
    wide[:, :rows] = values
    return wide[:, :rows]


def _nan(count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return NaNs, or for integers the largest number."""
    if not dtype.is_floating_point:
        return torch.full((count,), torch.iinfo(dtype).max, dtype=dtype)
    if dtype.itemsize == 1:  # torch 2.13 cannot fill them; 255 is a NaN in all of them
        return torch.full((count,), 255, dtype=torch.uint8).view(dtype)
    return torch.full((count,), float("nan"), dtype=dtype)


def detached(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a contiguous detached copy in another type."""
    return values.detach().to(dtype, copy=True).contiguous()
