"""An engine that runs nothing: what a case shows depends on the name of its op alone."""

import ctypes
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from harness.model.case import Case
from harness.model.device import DeviceProfile
from harness.model.engine_traits import VIRTUAL
from harness.model.op import Op
from harness.model.paired_run import PairedRunRequest
from harness.model.run import FormMismatch, ResultForm, Run
from tests.search.fakes import facts, never, unsupported

FLAT = FormMismatch(
    name="y", got=ResultForm(kind="float32", shape=(6,)), expected=ResultForm(kind="float32", shape=(2, 3))
)
SUITE = """
from harness.suite import op, tensor, tokens, width

{ops}
"""
DECLARED = """
@op(dims={{"T": tokens(grows=False), "D": width(64), "G": width(1)}}, inputs={{"x": tensor("T", "D")}}{options})
def {name}(x):
    raise AssertionError("no test runs this")

@{name}.reference
def _(x):
    raise AssertionError("no test runs this")
"""


def suite_of(*names: str, options: str = "") -> str:
    """Return the text of a suite with these ops."""
    return SUITE.format(ops="".join(DECLARED.format(name=name, options=options) for name in names))


class FakeEngine:
    """Facts by the name of the op.

    `misshapen` never returns what its reference returns.  `overlapping` stores cells twice from three rows on.
    `unknown` cannot be checked.  `slow` takes 50 ms a case.  `only_on_rtx` can be checked on those GPUs.  `dying`
    breaks the harness at more than a hundred rows.  `stubborn` and a process that it starts end by SIGKILL only.
    """

    traits = VIRTUAL

    def prepare(self) -> None:
        """There is nothing to load."""

    def emulate(self, device: DeviceProfile) -> None:
        del device

    def obstacle(self) -> str:
        return ""

    def begin(self) -> str:
        return ""

    def run(self, op: Op, case: Case) -> Run:
        match op.name:
            case "overlapping":
                return facts(case, lambda case: case.dims["T"] >= 3)
            case "unknown":
                return unsupported(case)
            case "only_on_rtx":
                return facts(case, never) if case.device.slug.startswith("rtx") else unsupported(case)
            case "misshapen":
                return replace(facts(case, never), mismatches=(FLAT,))
            case "slow":
                time.sleep(0.05)  # waits for nothing: it stands for a slow kernel
                return facts(case, lambda case: case.dims["T"] >= 3)
            case "stubborn":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                subprocess.Popen(["/bin/sleep", "600"])
                Path(os.environ["STUBBORN_FIFO"]).write_text("stubborn\n", encoding="ascii")
                ctypes.PyDLL(None).sleep(600)  # a long call of native code: no signal handler in Python runs
                return facts(case, never)
            case "dying":
                if case.dims["T"] > 100:
                    raise AssertionError("the engine itself is broken")
                return facts(case, lambda case: case.dims["T"] >= 3)
            case _:
                return facts(case, never)

    def run_paired(self, op: Op, request: PairedRunRequest) -> Run:
        return self.run(op, request.case)
