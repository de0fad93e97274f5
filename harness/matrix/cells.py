"""The cells of a matrix: each config of a kernel on each device, judged by that device's limits."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.documents.build_matrix import BuildMatrix, MatrixRow
from harness.engines.virtual.synchronisation.occupancy import occupancy
from harness.model.device import DeviceProfile
from harness.model.kernel_build import BuildFacts, CollectedBuild, CollectedKernel, CompileTarget
from harness.oracles.resources import Shortage, local_bytes, shortages

AMD_SHARED_BYTES = {"gfx942": 65_536, "gfx950": 163_840}
"""LDS of a workgroup (AMD's CDNA 3 and CDNA 4 instruction set references)."""
INTEL_SCRATCH_BYTES = 262_144
"""The most scratch of a hardware thread of Intel GPUs, by an error message of their driver (max permitted PTSS)."""
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
    """0 if it cannot run, or the limits of the target are unknown."""
    local_bytes_per_sm: int = 0

    @property
    def fits(self) -> bool:
        return not self.shortages and not self.facts.unknown

    @property
    def exceeds_intel(self) -> bool:
        """True if this local memory would exceed the scratch of an Intel GPU's thread: an estimate.

        Intel's compiler allocates registers otherwise, and no Intel GPU is in the catalogue.
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
            yield _cell(row, build, facts, devices.get(row.device))


def _cell(
    row: MatrixRow, build: CollectedBuild, facts_by_key: dict[str, BuildFacts], device: DeviceProfile | None
) -> Cell:
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
        shortages=_shortages(facts, build.target, device),
    )
    if device is None or not plain.fits:
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


def _shortages(facts: BuildFacts, target: CompileTarget, device: DeviceProfile | None) -> tuple[Shortage, ...]:
    if facts.unknown:
        return ()
    if device is not None:
        return tuple(shortages(facts.resources, device))
    if facts.failure:
        return (Shortage(place="compiler", seen=f"does not compile for {target}: {facts.failure}"),)
    needed, limit = facts.shared_bytes, AMD_SHARED_BYTES.get(target.arch, facts.shared_bytes)
    if needed <= limit:
        return ()
    seen = f"needs {needed} bytes of shared memory, where {target} has {limit}"
    return (Shortage(place="shared memory", seen=seen, needed=needed, limit=limit),)
