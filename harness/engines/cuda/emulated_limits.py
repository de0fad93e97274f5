"""Checks whether kernels fit into the shared memory of the emulated GPU.

The build for the hardware does not answer that.  For example, warp groups of a Hopper multiply out of shared memory,
and those of an RTX PRO 6000 do not.  So one build of a kernel may need half as much again.  A kernel that exceeds the
emulated limit is compiled for the emulated architecture too, and that build counts.
"""

from typing import Any

from triton import OutOfResources

from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.sanitizers.instrumentation import Instrumenting
from harness.engines.triton.kernel_facts import options_of
from harness.engines.triton.triton_seam import intercept_loading, shared_bytes_on
from harness.errors import CannotRunHere
from harness.model.device import DeviceProfile


class SharedMemoryCheck:
    """Compares the shared memory of each kernel with the limit of the emulated device."""

    def __init__(self, emulated: DeviceProfile, gpu: RealGpu, instrumentation: Instrumenting | None) -> None:
        """Make the check.

        Args:
            emulated: has at most as much shared memory as `gpu`.
            gpu: the hardware.
            instrumentation: a sanitizer that enlarges builds, so that their size says nothing; the check is then off.
        """
        self._emulated = emulated
        self._gpu = gpu
        self._instrumentation = instrumentation
        self._emulated_bytes: dict[str, int] = {}
        """By hash of the hardware's build, the shared memory of the build for the emulated device."""

    def install(self) -> None:
        """Check every kernel of this process from now on."""
        intercept_loading(self.check, self.explain_refusal, shared_bytes_per_block=self._gpu.shared_bytes_per_block)

    def check(self, kernel: Any) -> None:
        """Check a compiled kernel before it is loaded.

        Raises:
            OutOfResources: the build for the emulated GPU needs more shared memory than that GPU has.
        """
        if self._instrumentation is not None:
            return
        needed, limit = int(kernel.metadata.shared), self._emulated.shared_bytes_per_block
        if needed > limit and self._has_other_architecture:
            if kernel.hash not in self._emulated_bytes:
                self._emulated_bytes[kernel.hash] = shared_bytes_on(
                    kernel, self._emulated.arch, options_of(kernel.metadata)
                )
            needed = self._emulated_bytes[kernel.hash]
        if needed > limit:
            raise OutOfResources(needed, limit, "shared memory")

    def explain_refusal(self, name: str, error: Exception) -> Exception:
        """Return the error to raise for a build that the hardware refuses.

        If the emulated GPU would get another build, the refusal says nothing about the kernel there.
        """
        if self._instrumentation is not None:
            build, other = f"with {self._instrumentation.mode}", "without"
        elif self._has_other_architecture:
            build, other = f"for sm_{self._gpu.arch}", f"for sm_{self._emulated.arch}"
        else:
            return error
        reason = str(error).splitlines()[0].removesuffix(".")
        return CannotRunHere(
            f"{name}: the {self._gpu.name} refuses its build {build} ({reason}), which says nothing of the one {other}"
        )

    @property
    def _has_other_architecture(self) -> bool:
        return self._emulated.arch != self._gpu.arch
