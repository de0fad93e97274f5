"""A test of pytest fails for causes, and not once more for each of their symptoms."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.model.finding import Finding
from harness.pytest_plugin.sessions import PollingObserver
from tests.reports.samples import CAUSE, OVERLAP, STRAY, VALUES


def sighting(finding: Finding) -> Any:
    return SimpleNamespace(fail=finding.fail)


def test_the_symptoms_of_a_cause_are_no_findings_of_a_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session: Any = SimpleNamespace(sources=(), options=SimpleNamespace(project=tmp_path, import_paths=()))
    observer = PollingObserver(session, (), lambda: None)
    for seen in (VALUES, STRAY, OVERLAP):
        observer.keep(sighting(seen), seen)
    observer.keep(sighting(OVERLAP), CAUSE)
    assert [found.symptoms for found in observer.log.findings.values()] == [CAUSE.symptoms]
    assert [path.name for path in Path(".harness", "findings").iterdir()] == [CAUSE.id]
