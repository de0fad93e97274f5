"""The engines that repeat each launch on the hardware GPU, and compare it with TTIR or with PTX on the CPU."""

import os
from pathlib import Path

from harness.engines.comparison.comparing_engine import ComparingEngine
from harness.engines.cuda.cuda_errors import as_fault
from harness.engines.cuda.emulation import gpu_of_worker, use_one_connection
from harness.engines.cuda.gpus.canary import CANARY_ELEMENTS, check_memory, wait_for_memory
from harness.engines.cuda.gpus.inventory import VISIBLE, RealGpu
from harness.engines.cuda.memory.driver_memory import CudaError, DeviceMemory
from harness.engines.cuda.repeated_launches import HardwareMachine
from harness.engines.ptx.engine import PtxLaunches
from harness.engines.triton import triton_seam
from harness.engines.virtual.launches import Launches
from harness.execution.reruns import Rerun
from harness.model.device import DeviceProfile
from harness.model.engine_traits import COMPARISON, PTX_ON_CUDA
from harness.model.run import Ending


class ComparisonEngine(ComparingEngine):
    """Runs cases on the virtual GPU and compares their launches with those of one hardware GPU."""

    traits = COMPARISON
    reruns = frozenset({Rerun.EXACT, Rerun.LANE_FILL})
    """The launches of benchmarks would be compared as well."""

    _gpu: RealGpu
    _cache: Path
    """Triton's cache of whole builds.  Set by `emulate`, like `_gpu`."""

    def prepare(self) -> None:
        """Prepare like the virtual engine, but leave the hardware GPU visible."""
        use_one_connection(os.environ)
        visible = os.environ.get(VISIBLE)  # the virtual engine hides all GPUs
        super().prepare()
        if visible is None:
            del os.environ[VISIBLE]
        else:
            os.environ[VISIBLE] = visible

    def emulate(self, device: DeviceProfile) -> None:
        """Emulate the device, without starting CUDA; kernels are compiled for the hardware GPU as well."""
        self._gpu = gpu_of_worker(os.environ)
        self._cache = Path(os.environ["TRITON_CACHE_DIR"] + triton_seam.FULL_CACHE_SUFFIX)
        super().emulate(device)

    def begin(self) -> str:
        """Start CUDA and check that the GPU's memory keeps what is written."""
        try:
            memory = DeviceMemory()
            memory.enter()
            return wait_for_memory(lambda: check_memory(memory.round_trip, CANARY_ELEMENTS))
        except CudaError as error:
            return f"the GPU cannot be used: {error}"

    def make_machine(self, launches: Launches) -> HardwareMachine:
        del launches
        return HardwareMachine(self._gpu.name, self._gpu.arch, self._cache)

    def blamed_ending(self, ending: Ending, unfinished: str | None) -> Ending:
        return as_fault(ending, unfinished)


class PtxOnCudaEngine(ComparisonEngine):
    """Runs the PTX of cases on the CPU, and compares their launches with those of one hardware GPU."""

    traits = PTX_ON_CUDA
    reruns = frozenset[Rerun]()
    make_launches = PtxLaunches
