"""The virtual GPU that also writes a case down as pieces of a program; child processes alone import this file."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from harness import wire
from harness.findings.repro.launch_call import LaunchSnapshot, snapshot
from harness.findings.repro.op_call import OpResults, call_record
from harness.findings.repro.pieces import CasePieces, TruthRecord, place
from harness.findings.repro.tensors import Writing, write
from harness.model.case import Case
from harness.model.op import Op
from harness.model.run import Ending, Result, Run
from harness.ops.compare import Noted
from harness.ops.execution import Execution, Tensors, plain_torch
from harness.ops.tolerance import Expected, sizes, tolerance_of
from harness.virtual.driver.builds import FOLDER_VARIABLE
from harness.virtual.driver.driver import LaunchHandler, LaunchRequest
from harness.virtual.engine import VirtualEngine
from harness.virtual.launches import Launches

MOST_LAUNCHES = 64
"""Of one case; later ones are not written down."""


class RecordingEngine(VirtualEngine):
    """Leaves a `CasePieces` of every case beside the builds."""

    def __init__(self) -> None:
        super().__init__(self._recording)
        self._snapshots: list[LaunchSnapshot] = []
        self._recorder = RecordingExecution(self._execution)
        self._execution = self._recorder

    def run(self, op: Op, case: Case) -> Run:
        """Run one case, and leave its record."""
        self._snapshots = []
        self._recorder.begin()
        seen = OpResults()
        run = super().run(seen.spying(op), case)
        with plain_torch():
            record = CasePieces(
                plain=call_record(op, case, seen, defined=False),
                defined=call_record(op, case, seen, defined=True),
                launches=tuple(one.completed(self._recorder.results) for one in self._snapshots),
                truths=self._recorder.truths,
            )
        file = place(Path(os.environ[FOLDER_VARIABLE]).parent, case)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(wire.to_json(record), encoding="ascii")
        return run

    def _recording(self, launches: Launches) -> LaunchHandler:
        def handle(request: LaunchRequest) -> None:
            if not self._recorder.is_again and len(self._snapshots) < MOST_LAUNCHES:
                self._snapshots.append(snapshot(request))
            launches(request)

        return handle


class RecordingExecution(Execution):
    """Keeps the results of a case, and what they should be."""

    def __init__(self, usual: Execution) -> None:
        """As `usual`, whose parts it takes."""
        vars(self).update(vars(usual))
        self._seen = replace(self._seen, is_compared=lambda _: True)  # with the file's own run, wherever that is
        self.begin()

    def begin(self) -> None:
        """Forget the case before."""
        self.is_again = False
        self.results: Tensors = {}
        self.truths: dict[str, TruthRecord] = {}

    def run_again(self, op: Op, case: Case) -> tuple[Ending, Mapping[str, str]]:
        """As any; its launches are the same once more."""
        self.is_again = True
        return super().run_again(op, case)

    def _compare(self, op: Op, results: Tensors, expected: Mapping[str, Expected], noted: Noted) -> tuple[Result, ...]:
        facts = super()._compare(op, results, expected, noted)
        self.results = results
        self.truths = {name: _truth(got, expected[name], op.slack) for name, got in results.items()}
        return facts


def _truth(got: torch.Tensor, expected: Expected, slack: float) -> TruthRecord:
    """The row's figure is the largest of all rows if that row is still wrong by it, otherwise that row's own."""
    tolerance = tolerance_of(expected, got.dtype, slack)
    truth = expected.truth.values
    errors = sizes(got.detach().to(torch.float64).reshape(truth.shape).numpy() - truth).per_tile
    if not errors.size:
        return TruthRecord(expression="", whole=tolerance.whole, row=tolerance.whole)
    worst = int((errors / tolerance.per_tile).argmax())  # to NumPy NaN is the largest
    largest = float(tolerance.per_tile.max())
    row = largest if not errors.max() <= largest else float(tolerance.per_tile[worst])
    writing = Writing(exact=True, after=lambda _: "")
    write({"truth": torch.from_numpy(truth).clone()}, writing)
    expression = "" if writing.missing else writing.lines[0].partition(" = ")[2]
    return TruthRecord(expression=expression, whole=tolerance.whole, row=row)
