"""An engine that launches one small kernel for every case and says that it did: what remains is the way there."""

from typing import Any

import torch

from harness.cuda.engine import CudaEngine
from harness.model.case import Case
from harness.model.op import Op
from harness.model.run import Completed, Run


class Launching(CudaEngine):
    """The cuda engine, of which everything is left out but a launch."""

    def __init__(self) -> None:
        super().__init__()
        self._tensors: tuple[Any, Any] | None = None

    def run(self, op: Op, case: Case) -> Run:
        """One launch, waited for."""
        del op
        from tests.cuda.fault_kernels import add_one  # noqa: PLC0415 - Triton asks for the device when it is imported

        if self._tensors is None:
            self._tensors = torch.ones(64, device="cuda"), torch.empty(64, device="cuda")
        add_one[(1,)](*self._tensors, 64)
        return Run(case=case, engine=self.name, ending=Completed())
