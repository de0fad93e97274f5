"""How many programs of a kernel one SM holds at a time.

By NVIDIA's rules: `cuda_occupancy.h` of the CUDA toolkit for how registers and shared memory are handed out, and the
table of technical specifications per compute capability in the CUDA C++ Programming Guide for the limits.
"""

from dataclasses import dataclass

from harness.model.device import DeviceProfile
from harness.model.kernel_resources import Resources

SUB_PARTITIONS = 4
"""Of an SM, each with its part of the registers and its own warps."""
REGISTER_UNIT = 256
"""Registers are handed out to a warp in multiples of this."""
SHARED_UNIT = 128
"""Shared memory is handed out to a block in multiples of this many bytes."""
SHARED_RESERVED_BYTES = 1024
"""Taken by the system for each block, since capability 8.0."""
TENSOR_MEMORY_COLUMNS = 512
"""Of an SM of capability 10.x (PTX ISA, `tcgen05`)."""
MAX_BLOCKS = {(8, 0): 32, (8, 6): 16, (8, 7): 16, (8, 9): 24, (9, 0): 32, (10, 0): 32, (10, 3): 32}
OTHER_MAX_BLOCKS = 24
"""Of 11.0, 12.0 and 12.1, the smallest capabilities that are not in the table above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """How many programs an SM holds, and what keeps it from holding more."""

    programs: int
    limited_by: str


def occupancy(resources: Resources, device: DeviceProfile, num_ctas: int = 1) -> Occupancy:
    """The occupancy of a kernel with these resources; at least 1, for a launch that is refused holds none anywhere.

    A program of several CTAs counts as so many blocks of one SM.  Where the compiler told nothing, threads and blocks
    alone limit.
    """
    warps = -(-resources.threads // device.warp_size)
    limits = {
        "threads": device.max_threads_per_sm // (warps * device.warp_size),
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
    limit = min(limits, key=lambda name: limits[name])
    return Occupancy(programs=max(1, limits[limit] // num_ctas), limited_by=limit)


def _round_up(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit
