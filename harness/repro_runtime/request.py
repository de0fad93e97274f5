"""What is asked of a watched file: which promise of which kernel, on which GPU, under what circumstances."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.model.case import Case, DType, LaneFill, ProgramOrder, Scale
from harness.model.device import DeviceProfile

FILE = "file"
"""The op that stands for any watched file, and the option that names it."""
SUITE = str(Path(__file__).with_name("file_op.py"))
"""The suite that declares it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question about a file."""

    oracle: str
    device: DeviceProfile
    kernel: str = ""
    """The kernel that must be at fault; any where empty."""
    configs: Mapping[str, int] = field(default_factory=dict[str, int])
    lane_fill: LaneFill = LaneFill.ZERO
    order: ProgramOrder = ProgramOrder.FORWARD
    scale: Scale = Scale.USUAL
    seed: int = 0

    def case(self, file: Path) -> Case:
        """The case that runs the file under these circumstances."""
        return Case(
            op=f"{SUITE}:{FILE}",
            dims={},
            dtype=DType.FP32,
            device=self.device,
            options={FILE: str(file.resolve())},
            configs=self.configs,
            lane_fill=self.lane_fill,
            order=self.order,
            scale=self.scale,
            seed=self.seed,
        )
