"""The request to check a reproducer: oracle, kernel, device, and the settings of its case."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.model.case import CallContext, Case, DType, Environment, LaneFill, ProgramOrder, Scale
from harness.model.device import DeviceProfile

FILE = "file"
"""The name of the placeholder op, and of the option that holds the path."""
SUITE = str(Path(__file__).with_name("file_op.py"))
"""The suite that declares the placeholder op."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """The oracle that checks a file, and the settings of its case."""

    oracle: str
    device: DeviceProfile
    kernel: str = ""
    """The kernel that must be at fault; empty for any."""
    configs: Mapping[str, int] = field(default_factory=dict[str, int])
    lane_fill: LaneFill = LaneFill.ZERO
    order: ProgramOrder = ProgramOrder.FORWARD
    scale: Scale = Scale.USUAL
    seed: int = 0
    environment: Environment = ()
    context: CallContext = CallContext.MAIN

    def case(self, file: Path) -> Case:
        """Return the case that runs the file with these settings."""
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
            environment=self.environment,
            context=self.context,
        )
