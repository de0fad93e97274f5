"""The case: everything that decides one run.  Equal cases must behave alike on any machine.

This file has the axes along which cases vary.  `harness.search` decides which values to draw.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.model.device import ADDED_TO_DEVICES, DeviceProfile
from harness.model.host_configs import PickedConfig

Scalar = int | float | bool | str | None
"""A JSON value that is neither a list nor an object."""


class DType(StrEnum):
    """Element type of an op's tensors, the simplest first."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP64 = "fp64"
    FP8_E4M3 = "fp8e4m3"
    FP8_E5M2 = "fp8e5m2"
    FP8_E4M3_FNUZ = "fp8e4m3fnuz"
    """AMD's CDNA 3 has this type, without infinities and negative zero, and its bias is 8."""
    FP8_E5M2_FNUZ = "fp8e5m2fnuz"
    FP8_E8M0 = "fp8e8m0"
    """A power of two, as the scales of MX formats are.  Triton takes it as `uint8`."""
    INT8 = "int8"
    INT32 = "int32"

    @property
    def torch_name(self) -> str:
        """The type's name in torch: `bfloat16`."""
        return _TORCH_NAMES[self]

    @property
    def is_differentiable(self) -> bool:
        """True if tensors of the type may require a gradient; others never do, whatever the op declares."""
        return self in {DType.FP32, DType.BF16, DType.FP16, DType.FP64}

    @property
    def is_float(self) -> bool:
        return self not in {DType.INT8, DType.INT32}


USUAL_DTYPES = (DType.FP32, DType.BF16, DType.FP16)
"""The types of cases of an op that names none."""
_TORCH_NAMES = {
    DType.FP32: "float32",
    DType.BF16: "bfloat16",
    DType.FP16: "float16",
    DType.FP64: "float64",
    DType.FP8_E4M3: "float8_e4m3fn",
    DType.FP8_E5M2: "float8_e5m2",
    DType.FP8_E4M3_FNUZ: "float8_e4m3fnuz",
    DType.FP8_E5M2_FNUZ: "float8_e5m2fnuz",
    DType.FP8_E8M0: "float8_e8m0fnu",
    DType.INT8: "int8",
    DType.INT32: "int32",
}


class Layout(StrEnum):
    """The layout of a tensor in its storage, simplest first."""

    CONTIGUOUS = "contiguous"
    OFFSET = "offset"
    """Contiguous rows inside a larger buffer whose other elements are NaN; dims of one element, but the last,
    have an odd stride."""
    STRIDED = "strided"
    """Rows with a gap after each; the gaps hold NaN."""
    TRANSPOSED = "transposed"
    """The two dims before the last are swapped in memory, as `x.transpose(-3, -2)` of a contiguous tensor."""
    BATCH_STRIDED = "batch-strided"
    """Batches with a gap of one NaN row after each, as `x[:, :T]` of a longer tensor; rows are dense."""
    STEPPED = "stepped"
    """Every second element of longer rows, as `x[..., ::2]`, or as the column `table[:, 0]`; NaN lies between."""
    COLUMN_MAJOR = "column-major"
    """The last two dims are swapped in memory, as `x.mT` of a contiguous tensor."""
    PERMUTED = "permuted"
    """All dims are in the reverse order in memory."""
    REPEATED = "repeated"
    """One slice for all indices of the first dim, whose stride is zero, as `x[:1].expand(T, D)`."""
    BROADCAST = "broadcast"
    """One element along some of the axes that the input declares to broadcast."""
    EXPANDED = "expanded"
    """One value with strides of zero, as the gradient of `y.sum()`."""


FEWEST_DIMS = {
    Layout.STRIDED: 1,
    Layout.BATCH_STRIDED: 3,
    Layout.TRANSPOSED: 3,
    Layout.STEPPED: 1,
    Layout.COLUMN_MAJOR: 2,
    Layout.PERMUTED: 3,
    Layout.REPEATED: 1,
}
"""The number of dims from which a tensor can have a layout, where it needs any; tensors of fewer are contiguous."""


CONTIGUOUS_LAYOUTS = frozenset({Layout.CONTIGUOUS, Layout.OFFSET})
RARE_LAYOUTS = frozenset({Layout.STEPPED, Layout.COLUMN_MAJOR, Layout.PERMUTED, Layout.REPEATED})
"""Layouts that few callers pass: the elements of a row are no neighbours, or rows share their memory."""
LAYOUTS_OF_ROWS = frozenset(Layout) - CONTIGUOUS_LAYOUTS - RARE_LAYOUTS - {Layout.BROADCAST}
"""Layouts of contiguous rows that are not neighbours of each other."""


class ValueDistribution(StrEnum):
    """The distribution of the inputs, simplest first."""

    NORMAL = "normal"
    SHIFTED = "shifted"
    """Mean 3, deviation 1: shows a missing subtraction of the mean, or a missing mask."""
    LARGE = "large"
    """Deviation 100."""
    TINY = "tiny"
    """Deviation 1e-4."""
    ZEROS = "zeros"
    """Normal, with about a third of the elements exactly zero, whole rows among them."""
    NAN_TAINTED = "spoiled"  # the old value stays: it is part of case digests and of JSON files
    """Normal, except at one index of one of the op's independent dims: all elements there are infinite or NaN."""
    NEGATIVE = "negative"
    """Mean -3, deviation 1: shows masked lanes that are zero where a maximum is taken.  Only checks have such cases."""
    TIES = "ties"
    """Multiples of one half: equal numbers, zeros of both signs, and numbers half-way between two integers."""
    SCALED_ROWS = "scaled-rows"
    """Normal, each row times a power of two of its own, from 2^-12 to 2^12."""
    HUGE = "huge"
    """Deviation 10,000: beyond the range of `exp`, and of squares in float16."""
    EXTREME = "extreme"
    """Normal, a quarter of the elements times powers of two up to 2^96, or 2^12 in float16.  Only checks have them."""
    SAMPLE = "sample"
    """What the op's `sample` returns, if the case has these sizes; otherwise normal.  Only checks have such cases."""


ONLY_IN_CHECKS = frozenset({ValueDistribution.NEGATIVE, ValueDistribution.EXTREME, ValueDistribution.SAMPLE})
FAR_FROM_ONE = frozenset(
    {ValueDistribution.LARGE, ValueDistribution.HUGE, ValueDistribution.SCALED_ROWS, ValueDistribution.EXTREME}
)
"""Distributions with numbers so large that intermediates may overflow."""
ILL_CONDITIONED = FAR_FROM_ONE - {ValueDistribution.LARGE}
"""Distributions in which sums cancel so much that their digits depend on the order of the terms."""


class LaneFill(StrEnum):
    """The value of lanes that a masked load without `other` leaves undefined."""

    ZERO = "zero"
    """The value that code of Triton 3.6 for NVIDIA GPUs leaves there; the language does not promise it."""
    ODD = "odd"
    """101 in every type: exact in all of them, and finite, so `undefined * 0` stays harmless."""


class Scale(StrEnum):
    """The size of the tensors, simplest first.  It decides how much of a case is run and checked."""

    USUAL = "usual"
    """Every program runs, forward and backward, and the results are compared with the reference."""
    LONG = "long"
    """One dim is long, past limits such as 32,767 and 65,535, and the others are small.

    Everything runs and is checked, as in a case of usual size.
    """
    OVERSIZED = "giant"  # the old value stays: it is part of case digests and of JSON files
    """More than 2^31 elements, so index arithmetic in 32 bits overflows.

    Large tensors hold zeros and take no memory.  A few programs of each launch run, among them the first and the last.
    No values are compared.
    """


class ProgramOrder(StrEnum):
    """The order in which programs of a launch begin, simplest first.  A GPU promises none."""

    FORWARD = "forward"
    """By ascending program id, as GPUs usually start them."""
    REVERSED = "reversed"
    SHUFFLED = "shuffled"
    """A random order that follows from the case's seed."""


class GradMode(StrEnum):
    """The mode of autograd in which the op is called, simplest first."""

    ENABLED = "enabled"
    """Forward and backward run."""
    NO_GRAD = "no_grad"
    """Only forward runs, under `torch.no_grad()`, as in inference."""


class CallContext(StrEnum):
    """The thread, context or process in which `harness.execution.call_contexts` calls the op, simplest first.

    Context variables, such as Triton's allocator, have other values in some of them.
    """

    MAIN = "main thread"
    """The thread that imported the library."""
    THREAD = "fresh thread"
    BACKWARD = "autograd's thread"
    """As for forward passes that checkpointing repeats in backward."""
    COPIED = "copied context"
    """A fresh thread with a copy of the main thread's context."""
    OTHER_ALLOCATOR = "another allocator"
    """The main thread, after another library has set an allocator of its own."""
    FORKED = "forked child"
    SPAWNED = "spawned child"
    """A new interpreter that imports the library again."""

    @property
    def is_main(self) -> bool:
        return self is CallContext.MAIN

    @property
    def where(self) -> str:
        """The context as part of a sentence: `in a fresh thread`."""
        return _WHERE[self]


_WHERE = {
    CallContext.MAIN: "in the main thread",
    CallContext.THREAD: "in a fresh thread",
    CallContext.BACKWARD: "in autograd's thread",
    CallContext.COPIED: "in a fresh thread with a copied context",
    CallContext.OTHER_ALLOCATOR: "in a context with another library's allocator",
    CallContext.FORKED: "in a forked child",
    CallContext.SPAWNED: "in a spawned child",
}


IN_CHILDREN = frozenset({CallContext.FORKED, CallContext.SPAWNED})
"""Contexts in a process of their own."""

Environment = tuple[tuple[str, str], ...]
"""Environment variables with their values, sorted by name."""
ProcessKind = tuple[DeviceProfile, Environment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that decides one run of one op on one device."""

    op: str
    """`suites/fla/norm.py:rms_norm`."""
    dims: Mapping[str, int]
    dtype: DType
    device: DeviceProfile
    """The device that the library's host code sees, including its SM count."""
    absent: tuple[str, ...] = ()
    """Optional inputs that are None in this case, sorted."""
    options: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])
    """Settings of the op's options by name; an option without an entry has its simplest setting."""
    layouts: Mapping[str, Layout] = field(default_factory=dict[str, Layout])
    """Layouts by input name, and by `grad` for the cotangents of all outputs; contiguous by default."""
    values: ValueDistribution = ValueDistribution.NORMAL
    configs: Mapping[str, int] = field(default_factory=dict[str, int])
    """Config indices by kernel name, among the configs that survive pruning, modulo their number; 0 by default."""
    lane_fill: LaneFill = LaneFill.ZERO
    order: ProgramOrder = ProgramOrder.FORWARD
    scale: Scale = Scale.USUAL
    seed: int = 0
    grad_mode: GradMode = GradMode.ENABLED
    frozen: tuple[str, ...] = ()
    """Differentiable inputs that require no gradient in this case, sorted; the others require one."""
    context: CallContext = CallContext.MAIN
    environment: Environment = ()
    """Environment variables by name, sorted.  The process sets them before it imports the library under test."""
    picked: tuple[PickedConfig, ...] = ()
    """What functions of the library's host code return in the place of the config that they would pick."""
    is_exact: bool = False
    """The case is computed in exact arithmetic too, even if its results are right: rounding may hide a wrong value."""

    @property
    def digest(self) -> str:
        """Eight hex digits, equal for equal cases whatever the order of their mappings.

        Fields of `ADDED` count only if they differ from their default, so a digest outlives their addition.
        """
        plain = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in ADDED or getattr(self, each.name) != each.default
        } | {"device": _plain(self.device)}
        return hashlib.sha256(json.dumps(plain, sort_keys=True, default=asdict).encode()).hexdigest()[:8]

    @property
    def process(self) -> ProcessKind:
        """What the process that runs the case must have; one process can run all cases with an equal one."""
        return self.device, self.environment

    @property
    def op_name(self) -> str:
        """The op without its file: `rms_norm`."""
        return self.op.rpartition(":")[2]

    def layout_of(self, tensor: str) -> Layout:
        """Return the layout of an input, or of the cotangents for `grad`."""
        return self.layouts.get(tensor, Layout.CONTIGUOUS)

    def __str__(self) -> str:
        dims = " ".join(f"{name}={size}" for name, size in self.dims.items())
        parts = [f"{name}={value}" for name, value in self.environment]
        parts += [f"{self.op_name} {dims} {self.dtype}"]
        parts += [f"{name}={setting}" for name, setting in self.options.items()]
        parts += [f"{name}=None" for name in self.absent]
        parts += [f"{name}:{layout}" for name, layout in self.layouts.items() if layout is not Layout.CONTIGUOUS]
        if self.values is not ValueDistribution.NORMAL:
            parts.append(f"values:{self.values}")
        parts += [f"{kernel}[{index}]" for kernel, index in self.configs.items() if index]
        parts += [f"{picked.function_name}={picked.config}" for picked in self.picked]
        if self.lane_fill is not LaneFill.ZERO:
            parts.append(f"undefined-lanes:{self.lane_fill}")
        if self.order is not ProgramOrder.FORWARD:
            parts.append(f"order:{self.order}")
        if self.scale is not Scale.USUAL:
            parts.append(self.scale)
        if self.grad_mode is not GradMode.ENABLED:
            parts.append(self.grad_mode)
        parts += [f"{name}:frozen" for name in self.frozen]
        if self.is_exact:
            parts.append("exact")
        if self.context is not CallContext.MAIN:
            parts.append(f"in:{self.context.replace(' ', '-')}")
        return f"{' '.join(parts)} seed={self.seed} on {self.device}"


HARNESS_FOLDER = Path(".harness")
"""Where the harness keeps findings, caches and all else, in the project's folder."""
ADDED = ("grad_mode", "frozen", "environment", "is_exact", "context", "picked")
"""Fields that digests and JSON leave out at their default: older cases, and the ids of findings, do not have them."""


@lru_cache(maxsize=256)
def _plain(device: DeviceProfile) -> Mapping[str, Any]:
    # Cached, since a device has more fields than a case and all cases of a device share it.
    added = {each.name: each.default for each in fields(device) if each.name in ADDED_TO_DEVICES}
    return {name: value for name, value in asdict(device).items() if name not in added or value != added[name]}
