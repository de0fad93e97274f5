"""Flaws that are named from the facts of runs alone."""

import pytest

from harness import catalogue
from harness.checks.check_verdict import FlawKind
from harness.checks.flaws import Evidences, flaws_of
from harness.model.case import Case, DType
from harness.model.ending import Completed, Crashed, Ending, Refused
from harness.model.run import Run

CRASH = Crashed(signal=None, status=0, log_tail="")
KILLED = Crashed(signal="SIGKILL", status=None, log_tail="")


@pytest.mark.parametrize(
    ("endings", "kinds"),
    [
        ([CRASH], [FlawKind.CRASH]),
        ([Refused(message="no"), CRASH, CRASH], [FlawKind.CRASH]),
        ([CRASH, Completed()], []),
        ([KILLED, Completed()], [FlawKind.CRASH]),
        ([Refused(message="no")], []),
    ],
)
def test_a_crash_that_no_oracle_judges_is_a_flaw(endings: list[Ending], kinds: list[FlawKind]) -> None:
    case = Case(op="candidate.py:f", dims={}, dtype=DType.FP32, device=catalogue.find("h200"))
    seen = Evidences(runs=[Run(case=case, engine="virtual", ending=ending) for ending in endings])
    assert [flaw.kind for flaw in flaws_of(seen)] == kinds
