"""The device profile: a GPU model as the host code of a kernel library sees it.

`harness.catalogue` has all profiles; `harness.engines.torch.torch_emulation` makes a process emulate one.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


class Architecture(StrEnum):
    """The NVIDIA GPU generations of the catalogue; their values are also pytest marks."""

    AMPERE = "ampere"
    ADA = "ada"
    HOPPER = "hopper"
    BLACKWELL = "blackwell"


GRID_LIMITS = {"x": 2**31 - 1, "y": 65535, "z": 65535}
"""The largest grid along each axis, in programs.

Source: CUDA C++ Programming Guide, technical specifications per compute capability; the same from 3.0 to 12.1.
"""
TENSOR_MEMORY_COLUMNS = 512
"""Columns of one SM of compute capability 10.x, the only one with tensor memory (PTX ISA, tcgen05.alloc)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """One GPU model, with the figures that the CUDA runtime reports for it."""

    slug: str
    """Name on the command line: `rtx-pro-6000`."""
    name: str
    """The answer of `torch.cuda.get_device_name()`: `NVIDIA RTX PRO 6000 Blackwell Workstation Edition`."""
    architecture: Architecture
    capability: tuple[int, int]
    sm_count: int
    shared_bytes_per_block: int
    """The opt-in limit of one CTA (`cudaDevAttrMaxSharedMemoryPerBlockOptin`), for example 101,376 or 232,448."""
    shared_bytes_per_sm: int
    l2_bytes: int
    registers_per_sm: int
    max_threads_per_sm: int
    memory_bytes: int
    sm_clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int
    source: str
    """The origin of the figures; without effect."""
    warp_size: int = 32
    max_threads_per_block: int = 1024
    default_shared_bytes_per_block: int = 49152

    @property
    def arch(self) -> int:
        """The capability as in Triton's compile target: 90, 100, 120."""
        major, minor = self.capability
        return 10 * major + minor

    def with_sm_count(self, sm_count: int) -> "DeviceProfile":
        return replace(self, sm_count=sm_count)

    def __str__(self) -> str:
        return f"{self.slug} ({self.sm_count} {'SM' if self.sm_count == 1 else 'SMs'}, sm_{self.arch})"
