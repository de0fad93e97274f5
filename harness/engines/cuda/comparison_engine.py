"""The comparison engine: cases run on the virtual GPU, and each launch is repeated on the hardware GPU and compared.

The library sees the virtual GPU and continues with its results.  Runs carry everything that the virtual engine reports.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from harness.engines.comparison.launches import LaunchComparison
from harness.engines.cuda.cuda_errors import as_fault
from harness.engines.cuda.emulation import gpu_of_worker, use_one_connection
from harness.engines.cuda.gpus.canary import CANARY_ELEMENTS, check_memory, wait_for_memory
from harness.engines.cuda.gpus.inventory import VISIBLE, RealGpu
from harness.engines.cuda.memory.driver_memory import CudaError, DeviceMemory
from harness.engines.cuda.repeated_launches import HardwareMachine
from harness.engines.ptx.engine import PtxLaunches
from harness.engines.triton import triton_seam
from harness.engines.virtual.engine import VirtualEngine
from harness.engines.virtual.launches import Launches
from harness.execution.reruns import Rerun
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.engine_traits import COMPARISON, PTX_ON_CUDA
from harness.model.launch_difference import CaseAgreement
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest
from harness.model.run import Run

R = TypeVar("R", bound=Run)


class ComparisonEngine(VirtualEngine):
    """Runs cases on the virtual GPU and compares their launches with those of one hardware GPU."""

    traits = COMPARISON
    reruns = frozenset({Rerun.EXACT, Rerun.LANE_FILL})
    """The launches of benchmarks would be compared as well."""

    _gpu: RealGpu
    _cache: Path
    """Triton's cache of whole builds.  Set by `emulate`, like `_gpu`."""

    def __init__(self) -> None:
        super().__init__(self._compare_launches)
        self._comparison: LaunchComparison | None = None

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

    def run(self, op: Op, case: Case) -> Run:
        """Run one case on the virtual GPU and repeat its launches on the hardware GPU."""
        assert self._comparison is not None, "emulate a device first"
        self._comparison.begin()
        return self._with_agreement(super().run(op, case), self._comparison)

    def run_paired(self, op: Op, request: PairedRunRequest) -> PairedRun:
        """Run one case on the virtual GPU; repeat its launches only if the request asks for plainer builds."""
        assert self._comparison is not None, "emulate a device first"
        if request.plainer is None:
            with self._comparison.paused():
                return super().run_paired(op, request)
        self._comparison.begin()
        with self._comparison.recompiled(request.plainer):
            run = super().run_paired(op, request)
        return self._with_agreement(run, self._comparison)

    def _with_agreement(self, run: R, comparison: LaunchComparison) -> R:
        """Return the run with the outcome of the comparison."""
        return replace(
            run,
            ending=as_fault(run.ending, comparison.unfinished),
            agreement=CaseAgreement(
                gpu=self._gpu.name,
                launches=comparison.launches,
                differences=tuple(comparison.differences),
                skipped=tuple(comparison.skipped),
            ),
        )

    def _compare_launches(self, launches: Launches) -> LaunchComparison:
        self._comparison = LaunchComparison(launches, HardwareMachine(self._gpu.arch, self._cache))
        return self._comparison


class PtxOnCudaEngine(ComparisonEngine):
    """Runs the PTX of cases on the CPU, and compares their launches with those of one hardware GPU."""

    traits = PTX_ON_CUDA
    reruns = frozenset[Rerun]()
    make_launches = PtxLaunches
