"""The cells of a matrix: each config of a kernel on each device, judged by that device's limits."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.documents.build_matrix import BuildMatrix, MatrixRow
from harness.engines.virtual.synchronisation.occupancy import occupancy
from harness.model.device import DeviceProfile
from harness.model.kernel_build import BuildFacts, CollectedBuild, CollectedKernel
from harness.oracles.resources import INTEL_SCRATCH_BYTES, Shortage, local_bytes, shortages

INTEL_LANES = 32
"""Lanes of a hardware thread, as Triton's Intel backend usually has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One config of a kernel on one device."""

    kernel: CollectedKernel
    build: CollectedBuild
    device: str
    target: str
    facts: BuildFacts
    shortages: tuple[Shortage, ...]
    programs_per_sm: int = 0
    """0 if it cannot run."""
    local_bytes_per_sm: int = 0

    @property
    def fits(self) -> bool:
        return not self.shortages and not self.facts.unknown

    @property
    def exceeds_intel(self) -> bool:
        """True if this local memory would exceed the scratch of an Intel GPU's thread: an estimate.

        Intel's compiler allocates registers otherwise, and Triton's wheel does not have it.
        """
        return self.facts.local_bytes_per_thread * INTEL_LANES > INTEL_SCRATCH_BYTES

    @property
    def id(self) -> tuple[str, str, str]:
        """Kernel, specialisation and config: the same on all devices."""
        return self.kernel.kernel, self.kernel.specialisation, self.build.config


def cells_of(matrix: BuildMatrix) -> Iterator[Cell]:
    """Yield all cells, in the order of the rows."""
    facts = {build.request.key: build.facts for build in matrix.builds}
    devices = {device.slug: device for device in matrix.devices}
    for row in matrix.rows:
        for build in row.kernel.builds:
            yield _cell(row, build, facts, devices[row.device])


def _cell(row: MatrixRow, build: CollectedBuild, facts_by_key: dict[str, BuildFacts], device: DeviceProfile) -> Cell:
    if build.key:
        facts = facts_by_key[build.key]
    else:
        facts = BuildFacts(failure=build.failure, failure_source=build.failure_source)
    plain = Cell(
        kernel=row.kernel,
        build=build,
        device=row.device,
        target=str(build.target),
        facts=facts,
        shortages=() if facts.unknown else tuple(shortages(facts.resources, device)),
    )
    if not plain.fits:
        return plain
    programs = occupancy(facts.resources, device, facts.num_ctas).programs
    return Cell(
        kernel=plain.kernel,
        build=plain.build,
        device=plain.device,
        target=plain.target,
        facts=facts,
        shortages=(),
        programs_per_sm=programs,
        local_bytes_per_sm=local_bytes(facts.resources, device) // device.sm_count,
    )
