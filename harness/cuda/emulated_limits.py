"""Whether a kernel fits on the GPU that is pretended: another question than whether its build for this one fits there.

A Hopper's warp groups multiply out of shared memory, an RTX PRO 6000 does not: of one kernel the one may need half as
much again as the other.  So what is more than the pretended GPU has is compiled for that one too, and its needs count.
"""

from typing import Any

from triton import OutOfResources

from harness.cuda.gpus.inventory import RealGpu
from harness.cuda.sanitizers.instrumentation import Instrumenting
from harness.errors import CannotRunHere
from harness.model.device import DeviceProfile
from harness.virtual.driver.kernel_facts import options_of
from harness.virtual.driver.triton_seam import load_by, shared_bytes_on


class Fitting:
    """Judges builds for a GPU by what another is told to have."""

    def __init__(self, told: DeviceProfile, gpu: RealGpu, checked: Instrumenting | None) -> None:
        """`told` has no more shared memory than `gpu`; builds with a sanitizer's checks tell nothing of others."""
        self._told = told
        self._gpu = gpu
        self._checked = checked
        self._needs: dict[str, int] = {}
        """By hash of the build for this GPU, what the one for the other takes of shared memory."""

    def install(self) -> None:
        """Look at every kernel of this process from now on."""
        load_by(self.look, self.refused, shared_bytes_per_block=self._gpu.shared_bytes_per_block)

    def look(self, kernel: Any) -> None:
        """Look at a compiled kernel before it is loaded.

        Raises:
            OutOfResources: the pretended GPU has less shared memory than its own build takes.
        """
        if self._checked is not None:
            return
        needed, limit = int(kernel.metadata.shared), self._told.shared_bytes_per_block
        if needed > limit and self._compiles_otherwise:
            if kernel.hash not in self._needs:
                self._needs[kernel.hash] = shared_bytes_on(kernel, self._told.arch, options_of(kernel.metadata))
            needed = self._needs[kernel.hash]
        if needed > limit:
            raise OutOfResources(needed, limit, "shared memory")

    def refused(self, name: str, error: Exception) -> Exception:
        """What it means for the pretended GPU that this one refuses a kernel's build."""
        if self._checked is not None:
            build, other = f"with {self._checked.mode}", "without"
        elif self._compiles_otherwise:
            build, other = f"for sm_{self._gpu.arch}", f"for sm_{self._told.arch}"
        else:
            return error
        said = str(error).splitlines()[0].removesuffix(".")
        return CannotRunHere(
            f"{name}: the {self._gpu.name} refuses its build {build} ({said}), which says nothing of the one {other}"
        )

    @property
    def _compiles_otherwise(self) -> bool:
        return self._told.arch != self._gpu.arch
