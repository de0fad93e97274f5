"""The engines of both releases: run cases on the CPU, and record their launches or compare them.

They execute each release's own TTIR or PTX.  A case that asks for exact arithmetic is run with its reference instead,
to be judged.
"""

import os
from pathlib import Path

from harness import wire
from harness.engines.ptx.engine import PtxEngine
from harness.engines.triton.driver import LaunchHandler, LaunchRequest
from harness.engines.virtual.engine import VirtualEngine
from harness.engines.virtual.launches import Launches
from harness.execution.reruns import Rerun
from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.op import Op
from harness.model.run import Completed, Run
from harness.oracles.endings import describe
from harness.upgrade.case_records import CaseRecords, ComparedCase, RecordedCase
from harness.upgrade.engines import ORDERS_VARIABLE, Turn, UpgradeOrders
from harness.upgrade.paired_launches import NewLaunches, OldLaunches


class UpgradeEngine(VirtualEngine):
    """Runs cases, and sees each launch before and after it."""

    reruns = frozenset({Rerun.EXACT})

    def __init__(self) -> None:
        super().__init__(self._watch_launches)
        self._watching: OldLaunches | NewLaunches | None = None
        """Sees the launches of the case under way; None while none is to be seen."""

    def emulate(self, device: DeviceProfile) -> None:
        """Emulate the device, and read the orders."""
        self._orders = wire.from_json(os.environ[ORDERS_VARIABLE], UpgradeOrders)
        super().emulate(device)

    def run(self, op: Op, case: Case) -> Run:
        """Run one case, without a comparison with its reference unless it is exact."""
        if case.is_exact:
            return super().run(op, case)
        records = CaseRecords(Path(self._orders.folders[op.suite]))
        match self._orders.turn:
            case Turn.RECORD:
                self._record(op, case, records)
            case Turn.COMPARE:
                self._compare(op, case, records)
        return Run(case=case, engine=self.traits.name, ending=Completed())

    def _record(self, op: Op, case: Case, records: CaseRecords) -> None:
        recorder = OldLaunches()
        ending = self._watched(op, case, recorder)
        record = RecordedCase(ending=ending, launches=tuple(recorder.launches))
        records.keep_recorded(case.digest, record, recorder.contents)

    def _compare(self, op: Op, case: Case, records: CaseRecords) -> None:
        record = records.recorded(case.digest)
        if record is None:  # its worker died with the old release
            return
        assert self._launches is not None, "emulate a device first"
        comparer = NewLaunches(self._launches, records, case.digest, record.launches)
        ending = self._watched(op, case, comparer)
        compared = ComparedCase(old_ending=record.ending, new_ending=ending, launches=tuple(comparer.launches))
        records.keep_compared(case.digest, compared)

    def _watched(self, op: Op, case: Case, watching: OldLaunches | NewLaunches) -> str:
        """Run the case, and return how it ended: empty if it completed."""
        self._watching = watching
        try:
            with self._state_for(case) as launches:
                ended, _ = self._execution.run_again(op, case)
                ending = launches.ending(ended, self._chooser.failed)
        finally:
            self._watching = None
        return "" if isinstance(ending, Completed) else describe(ending)

    def _watch_launches(self, launches: Launches) -> LaunchHandler:
        def handle(request: LaunchRequest) -> None:
            if self._watching is None or request.model:
                launches(request)
            else:
                self._watching.run(request, launches, self._chooser.chosen.index)

        return handle


class PtxUpgradeEngine(UpgradeEngine, PtxEngine):
    """The same with the PTX that each release makes: results follow from its whole compiler.

    Exact arithmetic and random rounding are those of the TTIR.
    """
