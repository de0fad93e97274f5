"""The request to check a reproducer: oracle, kernel, and the case that runs a file."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.model.case import Case, DType
from harness.model.device import DeviceProfile

FILE = "file"
"""The name of the placeholder op, and of the option that holds the path."""
SUITE = str(Path(__file__).with_name("file_op.py"))
"""The suite that declares the placeholder op."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """The oracle that checks a file, and the settings of its case."""

    oracle: str
    settings: Case
    """As `file_case` returns it."""
    kernel: str = ""
    """The kernel that must be at fault; empty for any."""

    def case(self, file: Path) -> Case:
        """Return the case that runs the file with these settings."""
        return replace(self.settings, options={FILE: str(file.resolve())})


def file_case(device: DeviceProfile, **settings: Any) -> Case:
    """Return a case of no file yet; the settings are fields of `Case`."""
    return Case(op=f"{SUITE}:{FILE}", dims={}, dtype=DType.FP32, device=device, **settings)
