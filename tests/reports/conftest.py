"""A folder of findings and two campaign reports on disk, nights, and a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.documents import files
from harness.findings import store
from harness.findings.region.record import save as save_region
from harness.reports.contents import ReportContents, read_contents
from harness.reports.morning import MorningContents
from tests.reports.chromium import Browser, find
from tests.reports.nights import contents_of_nights, write_nights
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


@pytest.fixture
def morning(tmp_path: Path) -> MorningContents:
    """The morning after four nights, with a bug in each state."""
    return contents_of_nights(write_nights(tmp_path / "nights"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Headless Chromium; its tests are skipped without one."""
    executable = find()
    assert executable is not None
    with Browser(executable, tmp_path_factory.mktemp("chromium")) as opened:
        yield opened
