"""The occupancy agrees with figures computed by hand from NVIDIA's rules."""

from dataclasses import replace

import pytest

from harness import catalogue
from harness.engines.virtual.synchronisation.occupancy import Occupancy, occupancy
from harness.model.kernel_resources import Resources

SMALL = Resources(
    registers_per_thread=16,
    spill_bytes=0,
    shared_bytes=0,
    tensor_memory_columns=0,
    scratch_bytes_per_program=0,
    threads=128,
)


@pytest.mark.parametrize(
    ("slug", "changes", "programs", "limited_by"),
    [
        ("a100", {"threads": 32}, 32, "blocks"),
        ("rtx-pro-6000", {"threads": 32}, 24, "blocks"),
        ("h200", {}, 16, "threads"),
        ("rtx-pro-6000", {}, 12, "threads"),
        ("rtx-pro-6000", {"threads": 1024}, 1, "threads"),
        # 64 registers are 2,048 a warp: 8 warps in each quarter of the SM
        ("a100", {"threads": 256, "registers_per_thread": 64}, 4, "registers"),
        # 255 registers are rounded up to 8,192 a warp: 2 warps in each quarter
        ("h200", {"registers_per_thread": 255}, 2, "registers"),
        # 168 registers are 5,376 a warp: 3 warps in each quarter, where the whole SM would have room for 12.2
        ("rtx-pro-6000", {"threads": 64, "registers_per_thread": 168}, 6, "registers"),
        # 1 KiB is reserved for each block
        ("h200", {"shared_bytes": 113 * 1024}, 2, "shared memory"),
        ("h200", {"shared_bytes": 113 * 1024 + 1}, 1, "shared memory"),
        ("rtx-pro-6000", {"shared_bytes": 40_000}, 2, "shared memory"),
        ("b200", {"tensor_memory_columns": 256}, 2, "tensor memory"),
        # 32 waves of 64 lanes
        ("mi300x", {"threads": 256}, 8, "threads"),
        # 129 vector registers are rounded up to 136: a SIMD of 512 holds 3 waves, the compute unit 3 programs of 4
        ("mi300x", {"threads": 256, "registers_per_thread": 129}, 3, "registers"),
        ("mi300x", {"threads": 256, "shared_bytes": 32 * 1024}, 2, "shared memory"),
        # LDS comes in units of 1,280 bytes there
        ("mi350x", {"threads": 256, "shared_bytes": 32 * 1024}, 4, "shared memory"),
        # 4 SIMDs with 1,536 registers for 32 lanes each
        ("rx-9070-xt", {"threads": 128, "registers_per_thread": 256}, 5, "registers"),
    ],
)
def test_the_scarcest_resource_limits(slug: str, changes: dict[str, int], programs: int, limited_by: str) -> None:
    found = occupancy(replace(SMALL, **changes), catalogue.find(slug))
    assert found == Occupancy(programs=programs, limited_by=limited_by)


def test_ctas_of_one_program_share_the_sm() -> None:
    assert occupancy(SMALL, catalogue.find("h200"), num_ctas=4).programs == 4


def test_a_kernel_that_fits_no_sm_counts_as_one() -> None:
    huge = replace(SMALL, shared_bytes=1 << 20)
    assert occupancy(huge, catalogue.find("h200")) == Occupancy(programs=1, limited_by="shared memory")


def test_without_compiler_figures_threads_and_blocks_limit() -> None:
    unknown = replace(Resources.failed("ptxas"), threads=256)
    assert occupancy(unknown, catalogue.find("h200")) == Occupancy(programs=8, limited_by="threads")
