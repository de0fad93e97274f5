"""The virtual GPU that also records a case as pieces of a program.  Only child processes import this."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from harness import wire
from harness.engines.torch.torch_seam import plain_torch
from harness.engines.triton.builds import BUILDS_VARIABLE
from harness.engines.triton.driver import LaunchHandler, LaunchRequest
from harness.engines.virtual.engine import VirtualEngine
from harness.engines.virtual.launches import Launches
from harness.execution.case_execution import LibraryContext
from harness.execution.execution import Execution
from harness.execution.execution_hooks import ObservedLaunches
from harness.execution.row_trials import SeenRows
from harness.execution.tolerance import Expected, sizes, tolerance_of
from harness.findings.repro.launch_call import LaunchSnapshot, snapshot
from harness.findings.repro.op_call import OpResults, call_record, rows_record
from harness.findings.repro.pieces import CasePieces, TruthRecord, record_path
from harness.findings.repro.tensors import Writing, write
from harness.model.case import Case
from harness.model.op import Op
from harness.model.row_check import RowDifference
from harness.model.run import Run

MOST_LAUNCHES = 64
"""The number of launches of one case that are recorded."""


class RecordingEngine(VirtualEngine):
    """Leaves a `CasePieces` file of every case next to the builds."""

    def __init__(self) -> None:
        self._snapshots: list[LaunchSnapshot] = []
        self._recorder = CaseRecorder()
        super().__init__(self._recording, self._recorded_execution)

    def run(self, op: Op, case: Case) -> Run:
        """Run one case, and leave its record."""
        self._snapshots = []
        run = super().run(op, case)
        recorder = self._recorder
        with plain_torch():
            record = CasePieces(
                plain=call_record(op, case, recorder.outputs, defined=False),
                defined=call_record(op, case, recorder.outputs, defined=True),
                launches=tuple(snapshot.completed(recorder.results) for snapshot in self._snapshots),
                truths=recorder.truths,
                rows=rows_record(op, case, recorder.outputs, recorder.rows, recorder.differing),
            )
        file = record_path(Path(os.environ[BUILDS_VARIABLE]).parent, case)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(wire.to_json(record), encoding="ascii")
        return run

    def _recorded_execution(
        self,
        library_context: LibraryContext,
        on_new_thread: Callable[[], object],
        *,
        launches: ObservedLaunches,
    ) -> Execution:
        # The reproducer's own run is compared with this one, so every run needs the tolerances of a compared run.
        compared = replace(launches, is_compared=lambda _: True)
        return Execution(library_context, on_new_thread, launches=compared, observer=self._recorder)

    def _recording(self, launches: Launches) -> LaunchHandler:
        def handle(request: LaunchRequest) -> None:
            if not self._recorder.is_again and len(self._snapshots) < MOST_LAUNCHES:
                self._snapshots.append(snapshot(request))
            launches(request)

        return handle


class CaseRecorder:
    """An execution's observer that keeps what the op returned, the results, and what they should be."""

    def __init__(self) -> None:
        self.is_again = False
        self.outputs = OpResults()
        self.results: Mapping[str, torch.Tensor] = {}
        self.truths: dict[str, TruthRecord] = {}
        self.rows: SeenRows | None = None
        """The first trial of a row check of which a result differs."""
        self.differing: tuple[str, ...] = ()
        """The results that differ in it."""

    def on_begin(self, case: Case, *, is_again: bool) -> None:
        """Forget the previous case.  A second run of the same case keeps the record."""
        del case
        self.is_again = is_again
        if not is_again:
            self.outputs, self.results, self.truths = OpResults(), {}, {}
            self.rows, self.differing = None, ()

    def on_outputs(self, outputs: Mapping[str, torch.Tensor]) -> None:
        if not self.is_again:
            self.outputs = OpResults.of(outputs)

    def on_expected(self, op: Op, results: Mapping[str, torch.Tensor], expected: Mapping[str, Expected]) -> None:
        self.results = results
        self.truths = {name: _truth(got, expected[name], op.slack) for name, got in results.items()}

    def on_rows(self, seen: SeenRows, differences: Mapping[str, RowDifference | None]) -> None:
        differing = tuple(name for name, difference in differences.items() if difference is not None)
        if differing and self.rows is None:
            self.rows, self.differing = seen, differing


def _truth(got: torch.Tensor, expected: Expected, slack: float) -> TruthRecord:
    """Return the expected value and its tolerances.

    The tolerance of rows is the largest of all rows if the worst row is still wrong by it, otherwise that row's own.
    """
    tolerance = tolerance_of(expected, got.dtype, slack)
    truth = expected.truth.values
    errors = sizes(got.detach().to(torch.float64).reshape(truth.shape).numpy() - truth).per_tile
    if not errors.size:
        return TruthRecord(expression="", whole=tolerance.whole, row=tolerance.whole)
    worst = int((errors / tolerance.per_tile).argmax())  # NaN is the largest for NumPy
    largest = float(tolerance.per_tile.max())
    row = largest if not errors.max() <= largest else float(tolerance.per_tile[worst])
    writing = Writing(exact=True, after=lambda _: "")
    write({"truth": torch.from_numpy(truth).clone()}, writing)
    expression = "" if writing.missing else writing.lines[0].partition(" = ")[2]
    return TruthRecord(expression=expression, whole=tolerance.whole, row=row)
