"""A folder of findings and two campaign reports on disk."""

from pathlib import Path

import pytest

from harness.documents import files
from harness.findings import store
from harness.findings.region.record import save as save_region
from harness.reports.contents import ReportContents, read_contents
from tests.reports.samples import EVIL, OLDER, OVERLAP, REGION, REPORT, VALUES


@pytest.fixture
def whole(tmp_path: Path) -> ReportContents:
    """A folder with a damaged finding among others, a report, and an older one."""
    folder = tmp_path / "findings"
    overlap, _ = store.save([OVERLAP, VALUES], folder, lambda one: one.fail.message, REPORT.versions)
    (overlap / "repro.py").write_text(f"# {EVIL}\nprint('again')\n", encoding="utf-8")
    save_region(REGION, overlap / store.FINDING, folder)
    (folder / "broken").mkdir()
    (folder / "broken" / "finding.json").write_text("{", encoding="utf-8")
    for name, report in (("nightly", REPORT), ("older", OLDER)):
        files.write(report, tmp_path / f"{name}.json")
    return read_contents([folder, tmp_path / "nightly.json"], earlier=[tmp_path / "older.json"], folder=folder)
