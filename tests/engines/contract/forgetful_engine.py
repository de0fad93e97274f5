"""An engine that completes every case without running it."""

from harness.model.case import Case
from harness.model.engine_traits import EngineTraits
from harness.model.op import Op
from harness.model.paired_run import PairedRunRequest
from harness.model.run import Completed, Run
from tests.workers.engines import Calling


class ForgetfulEngine(Calling):
    """Knows no launches and no results."""

    traits = EngineTraits(name="nameless")

    def run(self, op: Op, case: Case) -> Run:
        del op
        return Run(case=case, engine=self.traits.name, ending=Completed())

    def run_paired(self, op: Op, request: PairedRunRequest) -> Run:
        return self.run(op, request.case)
