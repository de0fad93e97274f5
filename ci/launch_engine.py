"""An engine that launches one small kernel for every case: its rate is the rate of round trips to a GPU worker."""

from typing import Any

import torch

from ci.fault_suite.faults import kernels
from harness.engines.cuda.engine import CudaEngine
from harness.model.case import Case
from harness.model.op import Op
from harness.model.run import Completed, Run

ELEMENTS = 64


class LaunchEngine(CudaEngine):
    """The cuda engine without inputs, references and checks."""

    def __init__(self) -> None:
        super().__init__()
        self._tensors: tuple[Any, Any] | None = None

    def run(self, op: Op, case: Case) -> Run:
        """Launch the kernel and wait for it."""
        del op
        if self._tensors is None:
            self._tensors = torch.ones(ELEMENTS, device="cuda"), torch.empty(ELEMENTS, device="cuda")
        kernels().add_one[(1,)](*self._tensors, ELEMENTS)
        return Run(case=case, engine=self.traits.name, ending=Completed())
