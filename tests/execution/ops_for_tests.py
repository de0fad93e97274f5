"""Ops in plain torch: norms as a library computes them."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from harness.model.case import Case, DType
from harness.model.device import Architecture, DeviceProfile
from harness.model.input_spec import Tensor
from harness.model.op import Dim, Op

DEVICE = DeviceProfile(
    slug="test-gpu",
    name="Test GPU",
    architecture=Architecture.BLACKWELL,
    capability=(12, 0),
    sm_count=4,
    shared_bytes_per_block=101_376,
    shared_bytes_per_sm=102_400,
    l2_bytes=1 << 20,
    registers_per_sm=65_536,
    max_threads_per_sm=1536,
    memory_bytes=1 << 30,
    sm_clock_khz=2_000_000,
    memory_clock_khz=10_000_000,
    memory_bus_bits=512,
    source="made up",
)


def layer_norm_reference(x: torch.Tensor, w: torch.Tensor | None, b: torch.Tensor | None) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    y = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    y = y if w is None else y * w
    return y if b is None else y + b


def rms_norm_reference(x: torch.Tensor, w: torch.Tensor | None) -> torch.Tensor:
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    return y if w is None else y * w


def blocked_sum(values: torch.Tensor) -> torch.Tensor:
    """Sum the last axis like a kernel with blocks of eight, in another order than torch."""
    padded = torch.nn.functional.pad(values, (0, -values.shape[-1] % 8))
    total = padded[..., :8]
    for start in range(8, padded.shape[-1], 8):
        total = total + padded[..., start : start + 8]
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = total[..., :half] + total[..., half:]
    return total


def layer_norm_call(x: torch.Tensor, w: torch.Tensor | None, b: torch.Tensor | None) -> torch.Tensor:
    """Compute in float32 and round once at the end, as fused kernels do."""
    wide, size = x.float(), x.shape[-1]
    centred = wide - blocked_sum(wide) / size
    y = centred * torch.rsqrt(blocked_sum(centred * centred) / size + 1e-5)
    y = y if w is None else y * w.float()
    y = y if b is None else y + b.float()
    return y.to(x.dtype)


def rms_norm_call(x: torch.Tensor, w: torch.Tensor | None) -> torch.Tensor:
    wide = x.float()
    y = wide / (blocked_sum(wide * wide) / x.shape[-1] + 1e-6).sqrt()
    return (y if w is None else y * w.float()).to(x.dtype)


def op(
    call: Callable[..., Any],
    reference: Callable[..., Any],
    inputs: Mapping[str, Tensor],
    refuses: tuple[str, ...] = ("NotImplementedError",),
) -> Op:
    return Op(
        name="op",
        suite="suites/test.py",
        call=call,
        reference=reference,
        dims={"T": Dim(low=0, high=200), "D": Dim(low=0, high=200)},
        inputs=inputs,
        refuses=refuses,
    )


ROWS = Tensor(shape=("T", "D"))
COLUMNS = Tensor(shape=("D",), optional=True)
LAYER_NORM = op(layer_norm_call, layer_norm_reference, {"x": ROWS, "w": COLUMNS, "b": COLUMNS})
RMS_NORM = op(rms_norm_call, rms_norm_reference, {"x": ROWS, "w": COLUMNS})


def case(*, rows: int = 5, columns: int = 7, dtype: DType = DType.FP32, **rest: Any) -> Case:
    return Case(op="suites/test.py:op", dims={"T": rows, "D": columns}, dtype=dtype, device=DEVICE, **rest)
