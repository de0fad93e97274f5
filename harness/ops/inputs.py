"""A case's tensors, made on the CPU from its seed: values, then layout.

Every tensor has a generator of its own, seeded by the case's seed and the tensor's name, so that leaving one out
changes no other.  What lies around an offset or strided tensor is NaN: a lane that lands there shows in the values.
"""

import hashlib
from collections.abc import Mapping
from math import prod

import torch

from harness.model.case import Case, DType, Layout, Values
from harness.model.op import Op

TORCH_DTYPES: Mapping[DType, torch.dtype] = {
    DType.FP32: torch.float32,
    DType.BF16: torch.bfloat16,
    DType.FP16: torch.float16,
}

SHIFT = 3.0
LARGE = 100.0
TINY = 1e-4
OFFSET_ELEMENTS = 67
"""Odd, so that an offset tensor's address is not a multiple of 16 bytes and Triton specialises for that."""
GAP_ELEMENTS = 5


def make_inputs(op: Op, case: Case) -> dict[str, torch.Tensor | None]:
    """The inputs by name, those with gradients as leaves; None where absent."""
    made: dict[str, torch.Tensor | None] = {}
    for name, declared in op.inputs.items():
        if name in case.absent:
            made[name] = None
            continue
        dtype = TORCH_DTYPES[declared.dtype or case.dtype]
        values = draw(case, name, declared.extents(case.dims), dtype)
        made[name] = lay_out(values, case.layout_of(name)).requires_grad_(declared.grad)
    return made


def make_cotangents(case: Case, outputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A random gradient for each output, laid out as the case says for `grad`."""
    return {
        name: lay_out(draw(case, f"grad:{name}", tuple(output.shape), output.dtype, plain=True), case.layout_of("grad"))
        for name, output in outputs.items()
    }


def draw(case: Case, name: str, shape: tuple[int, ...], dtype: torch.dtype, *, plain: bool = False) -> torch.Tensor:
    """Contiguous values; `plain` ones are normal whatever the case's distribution."""
    generator = torch.Generator().manual_seed(_seed(case.seed, name))
    values = torch.randn(shape, generator=generator, dtype=torch.float32)
    match Values.NORMAL if plain else case.values:
        case Values.NORMAL:
            pass
        case Values.SHIFTED:
            values = values + SHIFT
        case Values.LARGE:
            values = values * LARGE
        case Values.TINY:
            values = values * TINY
        case Values.ZEROS:
            values = values * (torch.rand(shape, generator=generator) > 1 / 3)
            if values.dim() > 1:
                rows = torch.rand(values.shape[:-1], generator=generator) > 1 / 8
                values = values * rows[..., None]
    return values.to(dtype)


def _seed(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:7], "big")


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
