"""A recorded case runs again, and waits for the compiler if its finding needs that."""

from pathlib import Path

import pytest

from harness.devices import catalogue
from harness.findings.recorded_cases import Recorded
from harness.findings.rerun import options_for, replay
from harness.model.case import Case, DType
from harness.model.verdict import Severity, Signature
from harness.search.engine_choice import EngineName
from harness.search.session import Session

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
    with Session(options_for(recorded, libraries=(), engine=EngineName.VIRTUAL)) as session:
        replayed = replay(recorded, session)
    assert [finding.fail.signature for finding in replayed.findings] == [recorded.signature]
