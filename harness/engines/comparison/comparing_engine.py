"""The engines that execute each launch twice: cases run on the virtual GPU, and launches again on another machine.

The library sees the virtual GPU and continues with its results.  Runs carry everything that the virtual engine reports.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TypeVar

from harness.engines.comparison.launches import LaunchComparison, OtherMachine
from harness.engines.virtual.engine import VirtualEngine
from harness.engines.virtual.launches import Launches
from harness.model.case import Case
from harness.model.launch_difference import CaseAgreement
from harness.model.op import Op
from harness.model.paired_run import PairedRun, PairedRunRequest
from harness.model.run import Ending, Run

R = TypeVar("R", bound=Run)


class ComparingEngine(VirtualEngine, ABC):
    """Runs cases on the virtual GPU, and compares their launches with those of another machine."""

    _comparison: LaunchComparison
    """Set by `emulate`."""

    def __init__(self) -> None:
        super().__init__(self._compare_launches)

    @abstractmethod
    def make_machine(self, launches: Launches) -> OtherMachine:
        """Return the machine that executes the launches again."""

    def blamed_ending(self, ending: Ending, unfinished: str | None) -> Ending:
        """Return the ending of a run; `unfinished` is the kernel at which the other machine stopped."""
        del unfinished
        return ending

    def run(self, op: Op, case: Case) -> Run:
        """Run one case on the virtual GPU and repeat its launches on the other machine."""
        self._comparison.begin()
        return self._with_agreement(super().run(op, case))

    def run_paired(self, op: Op, request: PairedRunRequest) -> PairedRun:
        """Run one case on the virtual GPU; repeat its launches only if the request asks for plainer builds."""
        comparison = self._comparison
        if request.plainer is None or request.plainer not in comparison.other.plainer:
            with comparison.paused():
                return super().run_paired(op, request)
        comparison.begin()
        with comparison.recompiled(request.plainer):
            return self._with_agreement(super().run_paired(op, request))

    def _with_agreement(self, run: R) -> R:
        """Return the run with the outcome of the comparison."""
        comparison = self._comparison
        return replace(
            run,
            ending=self.blamed_ending(run.ending, comparison.unfinished),
            agreement=CaseAgreement(
                gpu=comparison.other.name,
                launches=comparison.launches,
                differences=tuple(comparison.differences),
                skipped=tuple(comparison.skipped),
            ),
        )

    def _compare_launches(self, launches: Launches) -> LaunchComparison:
        self._comparison = LaunchComparison(launches, self.make_machine(launches))
        return self._comparison
