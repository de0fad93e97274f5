"""The engine of both GPUs: cases run on the virtual one, and every launch is repeated on a real one and compared.

The library sees the virtual GPU, and goes on with its results; all that the virtual engine sees is seen here too.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from harness.cuda.comparison.launches import BothGpus
from harness.cuda.cuda_errors import faulted
from harness.cuda.emulation import gpu_of_this_process
from harness.cuda.gpus.canary_program import CANARY_ELEMENTS, given_room, kept_patterns
from harness.cuda.gpus.inventory import VISIBLE
from harness.cuda.memory.driver_memory import CudaError, DeviceMemory
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.launch_difference import CaseAgreement
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest
from harness.model.run import Run
from harness.virtual.driver import triton_seam
from harness.virtual.engine import VirtualEngine
from harness.virtual.launches import Launches

R = TypeVar("R", bound=Run)


class BothEngine(VirtualEngine):
    """Wears one device, runs cases on it, and has one real GPU beside; one to a process."""

    name = "cuda,virtual"

    def __init__(self) -> None:
        super().__init__(self._beside)
        self._gpus: BothGpus | None = None
        self._name = ""

    def prepare(self) -> None:
        """As the virtual engine does; the real GPU stays visible."""
        visible = os.environ.get(VISIBLE)
        super().prepare()
        if visible is None:
            del os.environ[VISIBLE]
        else:
            os.environ[VISIBLE] = visible

    def wear(self, device: DeviceProfile) -> None:
        """Wear the device; kernels are compiled for the GPU at hand a second time.  CUDA is not started yet."""
        self._name = gpu_of_this_process().name
        super().wear(device)

    def begin(self) -> str:
        """Start CUDA, and see whether the GPU's memory keeps what is written there."""
        try:
            memory = DeviceMemory()
            memory.enter()
            return given_room(lambda: kept_patterns(memory.returned, CANARY_ELEMENTS))
        except CudaError as error:
            return f"the GPU cannot be used: {error}"

    def run(self, op: Op, case: Case) -> Run:
        """Run one case on the virtual GPU, and what it launches on the real one."""
        assert self._gpus is not None, "wear a device first"
        self._gpus.begin()
        return self._compared(super().run(op, case), self._gpus)

    def run_beside(self, op: Op, wanted: PairedRunRequest) -> PairedRun:
        """Run one case on the virtual GPU alone, unless the real one is to get plainer code: all else was compared."""
        assert self._gpus is not None, "wear a device first"
        if wanted.plainer is None:
            with self._gpus.aside():
                return super().run_beside(op, wanted)
        self._gpus.begin()
        with self._gpus.built(wanted.plainer):
            run = super().run_beside(op, wanted)
        return self._compared(run, self._gpus)

    def _compared(self, run: R, gpus: BothGpus) -> R:
        """The run, and what the real GPU made of its launches."""
        return replace(
            run,
            ending=faulted(run.ending, gpus.under_way),
            agreement=CaseAgreement(
                gpu=self._name,
                launches=gpus.launches,
                differences=tuple(gpus.differences),
                skipped=tuple(gpus.skipped),
            ),
        )

    def _beside(self, launches: Launches) -> BothGpus:
        cache = Path(os.environ["TRITON_CACHE_DIR"] + triton_seam.WHOLE)
        self._gpus = BothGpus(launches, gpu_of_this_process().arch, cache)
        return self._gpus
