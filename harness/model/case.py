"""The case: everything that decides one run.  Equal cases must behave alike, on any machine, on any day.

Owns the axes along which cases vary.  Which values are worth drawing is `harness.search`'s business.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from functools import lru_cache
from typing import Any

from harness.model.device import DeviceProfile

Scalar = int | float | bool | str | None
"""What JSON holds in one piece."""


class DType(StrEnum):
    """Element type of an op's floating-point tensors."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


class Layout(StrEnum):
    """How a tensor lies in its storage; the plainest comes first."""

    CONTIGUOUS = "contiguous"
    OFFSET = "offset"
    """Contiguous rows that begin inside a larger buffer; what lies around them is NaN."""
    STRIDED = "strided"
    """Rows with a gap after each; what lies in the gaps is NaN."""
    EXPANDED = "expanded"
    """One value seen through strides of zero, as `y.sum().backward()` hands a gradient."""


class ValueDistribution(StrEnum):
    """What distribution the inputs come from; the plainest comes first."""

    NORMAL = "normal"
    SHIFTED = "shifted"
    """Mean 3, deviation 1: what a missing subtraction of the mean or a missing mask needs to show."""
    LARGE = "large"
    """Deviation 100."""
    TINY = "tiny"
    """Deviation 1e-4."""
    ZEROS = "zeros"
    """Normal, with about a third of the elements exactly zero, whole rows among them."""
    SPOILED = "spoiled"
    """Normal, but for one place of a dim along which the op keeps its inputs apart: there all is infinite or NaN."""


class LaneFill(StrEnum):
    """What lanes hold that a masked load without `other` leaves undefined."""

    ZERO = "zero"
    """What the code that Triton 3.6 generates for NVIDIA GPUs leaves there, though its language does not promise it."""
    ODD = "odd"
    """101 in every type: finite, so that `undefined * 0` stays harmless, and exact in all of them."""


class Scale(StrEnum):
    """How large the tensors are, and with that, how much of a case is run and judged; the plainest comes first."""

    USUAL = "usual"
    """Every program runs, forward and backward, and the results are compared with the reference."""
    GIANT = "giant"
    """More than 2^31 elements, where index arithmetic in 32 bits overflows.

    Large tensors hold zeros and take no memory; of each launch a few programs run, the first and the last among them;
    nothing is compared.
    """


class ProgramOrder(StrEnum):
    """In which order the programs of each launch begin; a GPU promises none.  The plainest comes first."""

    FORWARD = "forward"
    """By ascending program id, as GPUs usually start them."""
    REVERSED = "reversed"
    SHUFFLED = "shuffled"
    """At random, by the case's seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that decides one run of one op on one device."""

    op: str
    """`suites/fla/norm.py:rms_norm`."""
    dims: Mapping[str, int]
    dtype: DType
    device: DeviceProfile
    """What the kernel's host code believes it runs on, SM count included."""
    absent: tuple[str, ...] = ()
    """Optional inputs that are None in this case, sorted."""
    options: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])
    """By name, the setting of each option of the op; at its plainest where not named."""
    layouts: Mapping[str, Layout] = field(default_factory=dict[str, Layout])
    """By input name, and `grad` for the cotangents of all outputs; contiguous where not named."""
    values: ValueDistribution = ValueDistribution.NORMAL
    configs: Mapping[str, int] = field(default_factory=dict[str, int])
    """By kernel name, the index among the autotune configs that survive pruning, modulo their number; else 0."""
    lane_fill: LaneFill = LaneFill.ZERO
    order: ProgramOrder = ProgramOrder.FORWARD
    scale: Scale = Scale.USUAL
    seed: int = 0

    @property
    def digest(self) -> str:
        """Eight hex digits that name the case: equal for equal cases, whatever the order of their mappings."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)} | {"device": _plain(self.device)}
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def op_name(self) -> str:
        """The op without its file: `rms_norm`."""
        return self.op.rpartition(":")[2]

    def layout_of(self, tensor: str) -> Layout:
        """How the named input lies in memory; `grad` names the cotangents."""
        return self.layouts.get(tensor, Layout.CONTIGUOUS)

    def __str__(self) -> str:
        dims = " ".join(f"{name}={size}" for name, size in self.dims.items())
        parts = [f"{self.op_name} {dims} {self.dtype}"]
        parts += [f"{name}={setting}" for name, setting in self.options.items()]
        parts += [f"{name}=None" for name in self.absent]
        parts += [f"{name}:{layout}" for name, layout in self.layouts.items() if layout is not Layout.CONTIGUOUS]
        if self.values is not ValueDistribution.NORMAL:
            parts.append(f"values:{self.values}")
        parts += [f"{kernel}[{index}]" for kernel, index in self.configs.items() if index]
        if self.lane_fill is not LaneFill.ZERO:
            parts.append(f"undefined-lanes:{self.lane_fill}")
        if self.order is not ProgramOrder.FORWARD:
            parts.append(f"order:{self.order}")
        if self.scale is not Scale.USUAL:
            parts.append(self.scale)
        return f"{' '.join(parts)} seed={self.seed} on {self.device}"


@lru_cache(maxsize=256)
def _plain(device: DeviceProfile) -> Mapping[str, Any]:
    """What all cases of a device share; its fields outnumber theirs."""
    return asdict(device)
