"""The engine that executes each launch twice: its TTIR on the virtual GPU, and its PTX from the same bytes."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from harness.engines.comparison.comparing_engine import ComparingEngine
from harness.engines.ptx.inquiry import Inquiry
from harness.engines.ptx.ptx_machine import PtxMachine
from harness.engines.virtual.launches import Launches
from harness.execution.reruns import Rerun
from harness.model.engine_traits import PTX_COMPARISON
from harness.model.miscompilation import InquiryRequest
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest


class PtxComparisonEngine(ComparingEngine):
    """Runs cases on the virtual GPU, and compares each launch with its PTX."""

    traits = PTX_COMPARISON
    reruns = frozenset({Rerun.EXACT})

    def make_machine(self, launches: Launches) -> PtxMachine:
        self._machine = PtxMachine(launches)
        return self._machine

    def run_paired(self, op: Op, request: PairedRunRequest) -> PairedRun:
        """Run one case as other comparing engines do; look into a wrong launch if the request asks for that."""
        if request.inquiry is None:
            return super().run_paired(op, request)
        with self.looking_into(request.inquiry) as inquiry:
            run = super().run_paired(op, request)
        return replace(run, miscompilation=inquiry.result)

    @contextmanager
    def looking_into(self, asked: InquiryRequest) -> Generator[Inquiry]:
        """While active, look into launches of the kernel, and compare none of them."""
        assert self._launches is not None, "emulate a device first"
        inquiry = Inquiry(self._launches, self._machine, asked)
        with self._comparison.watched_by(inquiry):
            yield inquiry

    def wrong_arguments(self) -> tuple[str, ...]:
        """Return the arguments that launches outside any case left otherwise than TTIR."""
        return tuple(seen.argument for seen in self._comparison.differences if not seen.is_explained)

    def launched_kernels(self) -> tuple[str, ...]:
        """Return the kernels of launches outside any case."""
        return tuple(launch.kernel for launch in self._case_launches.launches)
