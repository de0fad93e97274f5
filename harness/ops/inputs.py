"""A case's tensors, made on the CPU from its seed: values, then layout.

Every tensor has a generator of its own, seeded by the case's seed and the tensor's name, so that leaving one out
changes no other.  What lies around an offset or strided tensor is NaN: a lane that lands there shows in the values.
"""

import hashlib
import random
from collections.abc import Mapping
from math import prod

import numpy as np
import numpy.typing as npt
import torch

from harness.model.case import Case, DType, Layout, Scale, ValueDistribution
from harness.model.input_spec import Draw, Integer, Integers, Segments, Tensor, extent_of
from harness.model.op import Op
from harness.ops.nan_taint import Spoiled, spoiled_place
from harness.ops.oversized_tensors import LARGE as LARGE_ELEMENTS
from harness.ops.oversized_tensors import sparse

TORCH_DTYPES: Mapping[DType, torch.dtype] = {
    DType.FP32: torch.float32,
    DType.BF16: torch.bfloat16,
    DType.FP16: torch.float16,
}

INTEGER_DTYPES: Mapping[Integer, torch.dtype] = {"int32": torch.int32, "int64": torch.int64}

SHIFT = 3.0
LARGE = 100.0
TINY = 1e-4
OFFSET_ELEMENTS = 67
"""Odd, so that an offset tensor's address is not a multiple of 16 bytes and Triton specialises for that."""
GAP_ELEMENTS = 5
AT_EDGES = (1 / 8, 1 / 8, 1.0)
LEAST_TILE = 4
"""A power of two."""
IGNORED_SHARES = (0.0, 1 / 8, 1 / 8, 1.0)
SHORT = 8
"""Sequences near one end are this long on average."""


def make_inputs(op: Op, case: Case) -> dict[str, torch.Tensor | None]:
    """The inputs by name, those with gradients as leaves; None where absent."""
    made: dict[str, torch.Tensor | None] = {}
    spoiled = _spoiled(op, case)
    for name, declared in op.inputs.items():
        if name in case.absent:
            made[name] = None
            continue
        match declared:
            case Tensor():
                dtype = TORCH_DTYPES[declared.dtype or case.dtype]
                values = draw(case, name, declared.extents(case.dims), dtype, declared.draw)
                if spoiled is not None:
                    spoiled.spoil(declared, values)
                made[name] = lay_out(values, case.layout_of(name)).requires_grad_(declared.grad)
            case Integers():
                made[name] = draw_integers(case, name, declared)
            case Segments():
                made[name] = draw_segments(case, name, declared)
    return made


def beside_spoiled(op: Op, case: Case, result: str) -> npt.NDArray[np.bool_] | None:
    """Of which cells of a result the definition tells whether a spoiled place reaches them; None where of all."""
    spoiled = _spoiled(op, case)
    declared = op.inputs[result[2:]] if result.startswith("d:") else None
    if spoiled is None or not isinstance(declared, Tensor):
        return None
    return spoiled.beside(declared, case.dims).numpy()


def _spoiled(op: Op, case: Case) -> Spoiled | None:
    return spoiled_place(op, case, _generator(case, "spoiled:")) if case.values is ValueDistribution.SPOILED else None


def make_cotangents(case: Case, outputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A random gradient for each output, laid out as the case says for `grad`; zeros for integers, which have none."""

    def cotangent(name: str, output: torch.Tensor) -> torch.Tensor:
        shape = tuple(output.shape)
        if _is_sparse(case, shape):
            return sparse(shape, output.dtype)
        if not output.is_floating_point():
            return torch.zeros(shape, dtype=output.dtype)
        return lay_out(_normal(case, f"grad:{name}", shape).to(output.dtype), case.layout_of("grad"))

    return {name: cotangent(name, output) for name, output in outputs.items()}


def draw(case: Case, name: str, shape: tuple[int, ...], dtype: torch.dtype, how: Draw = Draw.VALUES) -> torch.Tensor:
    """Contiguous elements: numbers of the case's distribution, turned into what the input asks for."""
    if _is_sparse(case, shape):
        return sparse(shape, dtype)
    values = _numbers(case, name, shape)
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
    return values.to(dtype)


def _is_sparse(case: Case, shape: tuple[int, ...]) -> bool:
    return case.scale is Scale.GIANT and prod(shape) > LARGE_ELEMENTS


def _numbers(case: Case, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    generator = _generator(case, name)
    values = torch.randn(shape, generator=generator, dtype=torch.float32)
    match case.values:
        case ValueDistribution.NORMAL | ValueDistribution.SPOILED:
            pass
        case ValueDistribution.SHIFTED:
            values = values + SHIFT
        case ValueDistribution.LARGE:
            values = values * LARGE
        case ValueDistribution.TINY:
            values = values * TINY
        case ValueDistribution.ZEROS:
            values = values * (torch.rand(shape, generator=generator) > 1 / 3)
            if values.dim() > 1:
                rows = torch.rand(values.shape[:-1], generator=generator) > 1 / 8
                values = values * rows[..., None]
    return values


def _normal(case: Case, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape, generator=_generator(case, name), dtype=torch.float32)


def draw_integers(case: Case, name: str, declared: Integers) -> torch.Tensor:
    """Uniform integers, of which an eighth, or by the seed all, lie at edges of tiles.

    Where one value is to be ignored, it stands in none, an eighth, or all places, by the seed.
    """
    generator = _generator(case, name)
    low, high = extent_of(declared.low, case.dims), extent_of(declared.high, case.dims)
    shape, dtype = declared.extents(case.dims), INTEGER_DTYPES[declared.dtype]
    made = torch.randint(low, max(high, low + 1), shape, generator=generator, dtype=dtype)
    at_edges = AT_EDGES[int(torch.randint(len(AT_EDGES), (), generator=generator))]
    made = torch.where(torch.rand(shape, generator=generator) < at_edges, _at_edges(made, low, high, generator), made)
    if declared.ignore is not None:
        share = IGNORED_SHARES[int(torch.randint(len(IGNORED_SHARES), (), generator=generator))]
        made[torch.rand(shape, generator=generator) < share] = declared.ignore
    return made


def _at_edges(values: torch.Tensor, low: int, high: int, generator: torch.Generator) -> torch.Tensor:
    """Each value at the next multiple of some power of two, where a tile of so many begins, or one below that."""
    most = max(1, high - 1).bit_length()
    bits = torch.randint(min(LEAST_TILE, most - 1), most, values.shape, generator=generator)
    below = torch.randint(2, values.shape, generator=generator)
    at = -(-values >> bits << bits) - below
    return at.clamp(low, max(high - 1, low)).to(values.dtype)


def draw_segments(case: Case, name: str, declared: Segments) -> torch.Tensor:
    """Boundaries at random: by the seed anywhere, or all near one end, so that a long one has short neighbours.

    Where sequences may be empty, every other seed puts each boundary anywhere, on another or at an end too.
    """
    generator = _generator(case, name)
    total = extent_of(declared.total, case.dims)
    if declared.may_be_empty and int(torch.randint(2, (), generator=generator)):
        return _any_bounds(total, declared.extents(case.dims)[0], generator).to(INTEGER_DTYPES[declared.dtype])
    cuts = declared.extents(case.dims)[0] - 2
    near = min(total - 1, max(cuts, SHORT * cuts))
    start, room = ((0, total - 1), (0, near), (total - 1 - near, near))[int(torch.randint(3, (), generator=generator))]
    chosen = 1 + start + torch.randperm(room, generator=generator)[:cuts]
    ends = torch.tensor([total], dtype=torch.int64)
    bounds = torch.cat([torch.zeros(1, dtype=torch.int64), chosen.sort().values, ends])
    return bounds.to(INTEGER_DTYPES[declared.dtype])


def _any_bounds(total: int, count: int, generator: torch.Generator) -> torch.Tensor:
    """Of which some are often equal, and the first two or the last two."""
    cuts = torch.randint(-total // 4, total + total // 4 + 1, (count,), generator=generator).clamp(0, total)
    cuts[0], cuts[-1] = 0, total
    return cuts.sort().values


def _generator(case: Case, name: str) -> torch.Generator:
    return torch.Generator().manual_seed(seed_of(case.seed, name))


def seed_of(seed: int, name: str) -> int:
    """What seeds the generator of one tensor of a case; a cotangent is called `grad:` and its output's name."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:7], "big")


def seed_globals(case: Case) -> None:
    """Have the generators that host code may draw from, for dropout say, begin alike for equal cases.

    Not by `torch.manual_seed`: for each kind of device that is not there it notes the stack, a tenth of a small case.
    """
    seed = seed_of(case.seed, "host code")
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    np.random.seed(seed % (1 << 32))  # noqa: NPY002 - the global one is what is meant


def lay_out(values: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The same values lying in memory as the layout says."""
    match layout:
        case Layout.CONTIGUOUS:
            return values
        case Layout.OFFSET:
            count = values.numel()
            around = _nan(count + 2 * OFFSET_ELEMENTS, values.dtype)
            around[OFFSET_ELEMENTS : OFFSET_ELEMENTS + count] = values.reshape(-1)
            return around[OFFSET_ELEMENTS : OFFSET_ELEMENTS + count].view(values.shape)
        case Layout.STRIDED:
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
        case Layout.EXPANDED:
            return values.reshape(-1)[:1].reshape(()).expand(values.shape) if values.numel() else values


def _nan(count: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.full((count,), float("nan"), dtype=dtype)


def detached(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A contiguous copy in another type, cut off from any graph."""
    return values.detach().to(dtype, copy=True).contiguous()
