"""The compile-ahead engine: it compiles the kernels of a case into Triton's cache and launches nothing.

The workers on the hardware GPU then load these builds.  Library and host code run on the CPU, as on the virtual GPU,
and see the device that the cuda engine emulates.  Results are uninitialised memory, which no oracle judges.
"""

import os

from harness.compiling.compiling_driver import CompilingDriver
from harness.engines.cuda.emulated_limits import SharedMemoryCheck
from harness.engines.cuda.emulation import emulated_profile, gpu_of_worker
from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.sanitizers.instrumentation import Instrumenting
from harness.engines.cuda.sanitizers.instrumented_builds import enable_instrumentation
from harness.engines.triton import triton_seam
from harness.engines.triton.driver import LaunchHandler
from harness.engines.virtual.engine import VirtualEngine
from harness.model.case import Case, Scale
from harness.model.device import DeviceProfile
from harness.model.engine_traits import COMPILE_AHEAD
from harness.model.kernel_assembly import KernelAssembly
from harness.model.op import Op
from harness.model.run import Completed, Run


class CompileAheadEngine(VirtualEngine):
    """Emulates the device that the cuda engine would emulate, and compiles the kernels that a case launches."""

    traits = COMPILE_AHEAD

    _gpu: RealGpu
    _instrumentation: Instrumenting | None
    """Triton's own sanitizer that is compiled into each kernel.  Set by `emulate`, like `_gpu`."""

    def emulate(self, device: DeviceProfile) -> None:
        """Show the device to host code; compile to binaries for the hardware GPU, in the cuda engine's cache."""
        os.environ["TRITON_CACHE_DIR"] += triton_seam.FULL_CACHE_SUFFIX
        self._gpu = gpu_of_worker(os.environ)
        self._instrumentation = enable_instrumentation(self._gpu, os.environ)
        super().emulate(emulated_profile(device, self._gpu))

    def _drive(self, device: DeviceProfile, on_launch: LaunchHandler) -> None:
        del on_launch  # nothing is launched
        triton_seam.set_driver(CompilingDriver(device, self._gpu.arch))
        SharedMemoryCheck(device, self._gpu, self._instrumentation).install()
        triton_seam.query_ptxas_version(self._gpu.arch)
        triton_seam.build_utilities()

    def assemble(self, assembly: KernelAssembly) -> None:
        """Assemble kernels this way; called before the only case of a process."""
        triton_seam.assemble_otherwise(assembly, self._gpu.arch)

    def run(self, op: Op, case: Case) -> Run:
        """Compile the kernels that the case launches; `seconds["compile"]` is the time of the compiler."""
        if case.scale is Scale.OVERSIZED:  # the cuda engine does not run such cases
            return Run(case=case, engine=self.traits.name, ending=Completed())
        with self._state_for(case) as launches:
            ending, _ = self._execution.run_again(op, case)
        seconds = {"compile": launches.seconds.get("front_end", 0.0)}
        return Run(case=case, engine=self.traits.name, ending=ending, seconds=seconds)
