"""A recorded case runs again, and the result says what became of the recorded failure."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness import catalogue
from harness.findings.recorded_cases import Recorded
from harness.findings.rerun import Replayed, ReplayStatus, options_for, replay
from harness.model.case import Case, DType
from harness.model.engine_traits import VIRTUAL
from harness.model.finding import Finding
from harness.model.run import Raised, Run
from harness.model.verdict import Severity, Signature
from harness.search.judge import Judge
from harness.search.session import Session
from tests.search.fakes import KERNEL, OP, SIMPLEST, facts, never, unsupported

SUITE = Path(__file__).parents[2] / "suites" / "planted" / "too_much_shared_memory.py"


@pytest.mark.slow
def test_a_rerun_waits_for_the_background_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # nothing was compiled here yet
    recorded = Recorded(
        case=Case(
            op=f"{SUITE}:too_much_shared_memory",
            dims={"T": 1, "D": 16},
            dtype=DType.FP16,
            device=catalogue.find("rtx-pro-6000"),
        ),
        signature=Signature(
            oracle="resources", severity=Severity.ERROR, op="", kernel="product_kernel", place="shared memory"
        ),
    )
    with Session(options_for(recorded, libraries=(), engine=VIRTUAL)) as session:
        replayed = replay(recorded, session)
    assert [finding.fail.signature for finding in replayed.findings] == [recorded.signature]


OVERLAP = Signature(oracle="write-overlap", severity=Severity.WARNING, op="", kernel=KERNEL, place="layernorm.py:431")
"""The only failure of `facts`."""
BOUNDS = replace(OVERLAP, oracle="bounds", severity=Severity.ERROR)
RAISED = Raised(kind="TypeError", message="no such argument", source=None, phase="forward", traceback="")
ERROR_TOO = replace(facts(SIMPLEST, lambda _: True), ending=RAISED)
"""A run that raised after it had overlapped."""


def replayed(run: Run, signature: Signature | None) -> Replayed:
    examined = Judge().only("completes", "bounds", "write-overlap").judge(OP, run, {})
    findings = tuple(
        Finding(fail=fail, case=run.case, launch=None, first_case=run.case, sightings=1, confirmed=True)
        for fail in examined.fails
    )
    return Replayed(recorded=Recorded(case=run.case, signature=signature), findings=findings, examined=examined)


SHOWING, CLEAN = facts(SIMPLEST, lambda _: True), facts(SIMPLEST, never)
AGAIN, GONE, UNCLEAR = ReplayStatus.SHOWN, ReplayStatus.GONE, ReplayStatus.NOT_CHECKED


@pytest.mark.parametrize(
    ("run", "signature", "status", "text"),
    [
        (SHOWING, OVERLAP, AGAIN, "fails again"),
        (
            SHOWING,
            replace(OVERLAP, place="layernorm.py:7"),
            AGAIN,
            f"fails again as {OVERLAP} (recorded: write-overlap: {KERNEL} layernorm.py:7)",
        ),
        (SHOWING, None, AGAIN, "fails again"),
        (CLEAN, None, GONE, f"is clean: {SIMPLEST}"),
        (CLEAN, OVERLAP, GONE, f"is gone: {OVERLAP} does not show"),
        (SHOWING, BOUNDS, GONE, f"is gone: {BOUNDS} does not show; the case has 1 other finding"),
        (
            ERROR_TOO,
            BOUNDS,
            UNCLEAR,
            "could not be checked: TypeError was raised in phase forward: no such argument; "
            "the case has 2 other findings",
        ),
    ],
)
def test_a_rerun_says_what_became_of_the_recorded_failure(
    run: Run, signature: Signature | None, status: ReplayStatus, text: str
) -> None:
    result = replayed(run, signature)
    assert (result.status, str(result)) == (status, f"{result.recorded.id} {text}")


def test_an_op_s_failure_is_known_again_in_documents_that_name_its_folder() -> None:
    (failure,) = replayed(ERROR_TOO, BOUNDS).failures(Severity.ERROR)
    signature = failure.fail.signature
    assert (signature.kernel, bool(signature.op)) == ("", True)
    earlier = replace(signature, op=f"checks/gpu/{signature.op}")
    assert replayed(ERROR_TOO, earlier).status is AGAIN


def test_a_symptom_alone_is_the_recorded_failure_again() -> None:
    result = replayed(SHOWING, BOUNDS)
    with_symptom = replace(result, recorded=replace(result.recorded, symptoms=(OVERLAP,)))
    assert (with_symptom.status, with_symptom.other_findings) == (AGAIN, ())
    assert str(with_symptom).endswith(f"fails again as {OVERLAP} (recorded: {BOUNDS})")


def test_an_unsupported_case_is_neither_shown_nor_gone() -> None:
    result = replayed(unsupported(SIMPLEST), OVERLAP)
    assert (result.status, "tt.histogram" in str(result)) == (UNCLEAR, True)


@pytest.mark.parametrize(
    ("run", "signature", "fail_on", "oracles"),
    [
        (SHOWING, OVERLAP, Severity.WARNING, ["write-overlap"]),
        (SHOWING, OVERLAP, Severity.ERROR, []),
        (SHOWING, BOUNDS, Severity.WARNING, []),
        (ERROR_TOO, BOUNDS, Severity.WARNING, ["completes"]),
        (ERROR_TOO, OVERLAP, Severity.ERROR, ["completes"]),
        (SHOWING, None, Severity.WARNING, ["write-overlap"]),
    ],
)
def test_the_recorded_failure_and_other_errors_fail_a_replay(
    run: Run, signature: Signature | None, fail_on: Severity, oracles: list[str]
) -> None:
    assert [finding.fail.oracle for finding in replayed(run, signature).failures(fail_on)] == oracles
