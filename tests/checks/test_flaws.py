"""Flaws that are named from the facts of runs alone."""

import pytest

from harness import catalogue
from harness.checks.flaws import Evidences, flaws_of
from harness.model.case import Case, DType
from harness.model.ending import Completed, Crashed, Ending, Refused
from harness.model.flaw_kind import FlawKind
from harness.model.run import Run
from harness.model.verdict import Fail, Severity, Signature

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


@pytest.mark.parametrize(
    ("oracle", "kind"),
    [
        ("bounds", FlawKind.OUT_OF_BOUNDS),
        ("float64-values", FlawKind.WRONG_VALUES),
        ("order-dependence", FlawKind.RACE),
        ("order-invariance", FlawKind.RACE),
        ("precision", FlawKind.WRONG_VALUES),
        ("repeatability", FlawKind.RACE),
        ("result-structure", FlawKind.WRONG_FORM),
        ("sm-invariance", FlawKind.PROMISE),
        ("thread-race", FlawKind.RACE),
        ("uninitialised-read", FlawKind.UNINITIALISED),
        ("unwritten", FlawKind.UNINITIALISED),
        ("write-overlap", FlawKind.RACE),
        ("wrong-value", FlawKind.WRONG_VALUES),
        ("of another release", FlawKind.PROMISE),
    ],
)
def test_a_broken_promise_is_named_by_its_kind(oracle: str, kind: FlawKind) -> None:
    broken = Signature(oracle=oracle, severity=Severity.ERROR, op="candidate.py:f", kernel="kernel", place="f.py:3")
    fail = Fail(signature=broken, message="seen", meaning="bad")
    assert [flaw.kind for flaw in flaws_of(Evidences(failures=[(fail, "case", "")]))] == [kind]
