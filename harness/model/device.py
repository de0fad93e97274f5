"""The device profile: a GPU model as the host code of a kernel library sees it.

`harness.catalogue` has all profiles; `harness.engines.torch.torch_emulation` makes a process emulate one.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


class Vendor(StrEnum):
    """The backends of Triton's compiler, by their names in its targets."""

    NVIDIA = "cuda"
    AMD = "hip"
    INTEL = "xpu"


class Architecture(StrEnum):
    """The GPU generations of the catalogue; their values are also pytest marks."""

    AMPERE = "ampere"
    ADA = "ada"
    HOPPER = "hopper"
    BLACKWELL = "blackwell"
    CDNA3 = "cdna3"
    CDNA4 = "cdna4"
    RDNA3 = "rdna3"
    RDNA4 = "rdna4"
    XE_HPC = "xe_hpc"
    XE2 = "xe2"


Arch = int | str
"""An architecture: 90 of an NVIDIA GPU and `gfx942` of an AMD one, as in Triton's target; `pvc` of an Intel one."""


AMD_PREFIX = "gfx"


def vendor_of(arch: Arch) -> Vendor:
    if isinstance(arch, int):
        return Vendor.NVIDIA
    return Vendor.AMD if arch.startswith(AMD_PREFIX) else Vendor.INTEL


def arch_name(arch: Arch) -> str:
    """Return the usual name of an architecture: `sm_90`, `gfx942`."""
    return f"sm_{arch}" if isinstance(arch, int) else arch


CUDA_GRID_LIMITS = {"x": 2**31 - 1, "y": 65535, "z": 65535}
"""The largest grid along each axis, in blocks.

Source: CUDA C++ Programming Guide, technical specifications per compute capability; the same from 3.0 to 12.1.
"""
WIDE_WAVE = 64
"""Lanes of a wave of CDNA."""
HIP_THREADS_PER_AXIS = 2**32 - 1
"""The most threads along an axis of a grid (HIP documentation, kernel launch).

Triton's blocks have their threads along x, so a grid has fewer programs there than along y and z.
"""
XPU_PROGRAMS_PER_AXIS = 2**31 - 1
"""The most programs along an axis on an Intel GPU: the launcher of Triton's backend takes the extents as C's `int`.

Level Zero allows 2**32 - 1 groups (its specification, `ze_device_compute_properties_t`).
"""
TENSOR_MEMORY_COLUMNS = 512
"""Columns of one SM of compute capability 10.x, the only one with tensor memory (PTX ISA, tcgen05.alloc)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """One GPU model, with the figures that the runtime of CUDA, ROCm or Level Zero reports for it.

    The words are NVIDIA's: of an AMD GPU, an SM is a compute unit, a warp a wave, and shared memory LDS.  Of an Intel
    GPU, an SM is an Xe-core, a warp a sub-group, and shared memory SLM.
    """

    slug: str
    """Name on the command line: `rtx-pro-6000`."""
    name: str
    """The answer of `torch.cuda.get_device_name()`: `NVIDIA RTX PRO 6000 Blackwell Workstation Edition`."""
    architecture: Architecture
    capability: tuple[int, int]
    """The answer of `torch.cuda.get_device_capability()`; (9, 4) of gfx942.  Of an Intel GPU its version: (12, 60)."""
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
    processor: str = ""
    """An AMD GPU's architecture as LLVM and Triton name it, `gfx942`, or an Intel GPU's, `pvc`; empty for NVIDIA's."""
    xcd_count: int = 1
    """Dies with compute units (XCDs), each with an L2 cache of its own."""
    mall_bytes: int = 0
    """The cache between L2 and memory (Infinity Cache)."""

    @property
    def vendor(self) -> Vendor:
        return vendor_of(self.arch)

    @property
    def arch(self) -> Arch:
        """The architecture: 90, 100, 120, `gfx942`, `pvc`."""
        major, minor = self.capability
        return self.processor or 10 * major + minor

    @property
    def sm(self) -> int:
        """The architecture of an NVIDIA GPU.

        Raises:
            ValueError: it is a GPU of another vendor.
        """
        return int(self.arch)

    @property
    def arch_name(self) -> str:
        """The architecture as people write it: `sm_90`, `gfx942`, `pvc`."""
        return arch_name(self.arch)

    @property
    def multiprocessor(self) -> str:
        """The vendor's short name of what `sm_count` counts."""
        match self.vendor:
            case Vendor.NVIDIA:
                return "SM"
            case Vendor.AMD:
                return "CU" if self.warp_size == WIDE_WAVE else "WGP"
            case Vendor.INTEL:
                return "Xe-core"

    @property
    def size(self) -> str:
        """The number of multiprocessors: `132 SMs`, `304 CUs`."""
        return f"{self.sm_count} {self.multiprocessor}{'' if self.sm_count == 1 else 's'}"

    def grid_limits(self, threads: int) -> dict[str, int]:
        """Return the largest grid along each axis, in blocks of so many threads."""
        match self.vendor:
            case Vendor.NVIDIA:
                return CUDA_GRID_LIMITS
            case Vendor.AMD:
                return {"x": HIP_THREADS_PER_AXIS // threads, "y": HIP_THREADS_PER_AXIS, "z": HIP_THREADS_PER_AXIS}
            case Vendor.INTEL:
                return dict.fromkeys("xyz", XPU_PROGRAMS_PER_AXIS)

    def with_sm_count(self, sm_count: int) -> "DeviceProfile":
        return replace(self, sm_count=sm_count)

    def __str__(self) -> str:
        return f"{self.slug} ({self.size}, {self.arch_name})"


ADDED_TO_DEVICES = ("processor", "xcd_count", "mall_bytes")
"""Fields that digests and JSON leave out at their default: those of older cases do not have them."""
