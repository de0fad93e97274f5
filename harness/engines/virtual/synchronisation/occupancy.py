"""The number of programs of a kernel that one SM, one compute unit of an AMD GPU or one Xe-core holds at a time.

The allocation rules for registers and shared memory are those of `cuda_occupancy.h` in the CUDA toolkit.  The limits
come from the technical specifications per compute capability in the CUDA C++ Programming Guide.

AMD's rules are those of LLVM (User Guide for AMDGPU Backend, and the subtarget's granules of registers and LDS).
"""

from dataclasses import dataclass

from harness.model.device import TENSOR_MEMORY_COLUMNS, DeviceProfile, Vendor
from harness.model.kernel_resources import Resources

SUB_PARTITIONS = 4
"""Sub-partitions of an SM; each has its share of the registers and its own warps."""
REGISTER_UNIT = 256
"""Allocation unit of registers per warp."""
SHARED_UNIT = 128
"""Allocation unit of shared memory per block, in bytes."""
SHARED_RESERVED_BYTES = 1024
"""Shared memory that the system reserves for each block, since capability 8.0."""
MAX_BLOCKS = {(8, 0): 32, (8, 6): 16, (8, 7): 16, (8, 9): 24, (9, 0): 32, (10, 0): 32, (10, 3): 32}
OTHER_MAX_BLOCKS = 24
"""The limit of capabilities 11.0, 12.0 and 12.1, and of later ones until they are added above."""


AMD_REGISTER_UNIT = {64: 8, 32: 24}
"""Allocation unit of vector registers per lane, by the lanes of a wave, where SIMDs have 512 or 1,536 of them."""
AMD_SHARED_UNITS = {"gfx950": 1280}
AMD_SHARED_UNIT = 512
"""Allocation unit of LDS in bytes; `AMD_SHARED_UNITS` has the exceptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """The number of programs that an SM holds, and the resource that limits it."""

    programs: int
    limited_by: str


def occupancy(resources: Resources, device: DeviceProfile, num_ctas: int = 1) -> Occupancy:
    """Return the occupancy of a kernel, at least 1: a GPU refuses to launch a kernel of which an SM holds none.

    A program of several CTAs counts as that many blocks of one SM.  If compilation failed, only threads and blocks
    limit the number.
    """
    warps = -(-resources.threads // device.warp_size)
    threads = {"threads": device.max_threads_per_sm // (warps * device.warp_size)}
    if device.vendor is Vendor.AMD:
        return _most(threads | _amd_limits(resources, device, warps), num_ctas)
    if device.vendor is Vendor.INTEL:  # the threads of an Xe-core have the registers, so only their number limits
        return _most(threads, num_ctas)
    limits = threads | {
        "blocks": MAX_BLOCKS.get(device.capability, OTHER_MAX_BLOCKS),
    }
    if resources.registers_per_thread:
        warp_registers = _round_up(resources.registers_per_thread * device.warp_size, REGISTER_UNIT)
        warps_held = device.registers_per_sm // SUB_PARTITIONS // warp_registers * SUB_PARTITIONS
        limits["registers"] = warps_held // warps
    if not resources.failure:
        block_bytes = _round_up(resources.shared_bytes + SHARED_RESERVED_BYTES, SHARED_UNIT)
        limits["shared memory"] = device.shared_bytes_per_sm // block_bytes
    if resources.tensor_memory_columns:
        limits["tensor memory"] = TENSOR_MEMORY_COLUMNS // resources.tensor_memory_columns
    return _most(limits, num_ctas)


def _amd_limits(resources: Resources, device: DeviceProfile, waves: int) -> dict[str, int]:
    """Return the most programs of a compute unit by its registers and its LDS."""
    limits: dict[str, int] = {}
    if resources.registers_per_thread:
        lane_registers = _round_up(resources.registers_per_thread, AMD_REGISTER_UNIT[device.warp_size])
        limits["registers"] = device.registers_per_sm // (lane_registers * device.warp_size) // waves
    if resources.shared_bytes and not resources.failure:
        unit = AMD_SHARED_UNITS.get(device.processor, AMD_SHARED_UNIT)
        limits["shared memory"] = device.shared_bytes_per_sm // _round_up(resources.shared_bytes, unit)
    return limits


def _most(limits: dict[str, int], num_ctas: int) -> Occupancy:
    limit = min(limits, key=lambda name: limits[name])
    return Occupancy(programs=max(1, limits[limit] // num_ctas), limited_by=limit)


def _round_up(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit
