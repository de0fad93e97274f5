"""The engine that compiles ahead: it launches nothing, and leaves in Triton's cache what the real GPU's processes need.

Library and host code run on the CPU, as on the virtual GPU, and meet the device that the cuda engine answers for; each
kernel that they would launch is compiled for the GPU at hand.  What it would have computed is not known: results are
whatever fresh memory holds, and nobody looks at them.
"""

import os

from harness.cuda.compiling_driver import CompilingDriver
from harness.cuda.emulated_limits import Fitting
from harness.cuda.emulation import answered, gpu_of_this_process
from harness.cuda.sanitizers.instrumented_builds import turned_on
from harness.model.case import Case, Scale
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.run import Completed, Run
from harness.virtual.driver import triton_seam
from harness.virtual.driver.driver import LaunchHandler
from harness.virtual.engine import VirtualEngine


class CompileAheadEngine(VirtualEngine):
    """Wears what the cuda engine wears, and compiles what a case launches; one to a process."""

    name = "ahead"

    def prepare(self) -> None:
        """As the virtual engine does, with the cuda engine's cache.  No GPU is visible, so CUDA cannot start."""
        super().prepare()
        os.environ["TRITON_CACHE_DIR"] += triton_seam.WHOLE

    def wear(self, device: DeviceProfile) -> None:
        """Answer for the device to host code; compile for the GPU at hand, to the end."""
        super().wear(answered(device, gpu_of_this_process()))

    def _drive(self, device: DeviceProfile, on_launch: LaunchHandler) -> None:
        del on_launch  # nothing is launched
        gpu = gpu_of_this_process()
        triton_seam.set_driver(CompilingDriver(device, gpu.arch))
        Fitting(device, gpu, turned_on(gpu)).install()
        triton_seam.ask_assembler(gpu.arch)
        triton_seam.build_utilities()

    def run(self, op: Op, case: Case) -> Run:
        """Compile what the case launches; `seconds["compile"]` is what that took."""
        if case.scale is Scale.GIANT:  # the cuda engine does not run it
            return Run(case=case, engine=self.name, ending=Completed())
        session = self._begin(case, case.lane_fill)
        try:
            ending, _ = self._execution.run_again(op, case)
        finally:
            self._fresh.forget()
        return Run(
            case=case, engine=self.name, ending=ending, seconds={"compile": session.seconds.get("front_end", 0.0)}
        )
