"""`harness report` and `harness findings` in processes, after a search."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.command_line import ON, Project
from tests.cli.fake_engine import suite_of
from tests.pytest_plugin.test_suites import Repository

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A folder in which a search has found one bug."""
    project = Project(tmp_path_factory.mktemp("searched"))
    project.write("suites/norm.py", suite_of("overlapping", "faultless"))
    done = project.harness("fuzz", "suites", "--cases", "12", *ON, "--json", "r.json")
    assert done.status == 1
    return project


def finding_of(project: Project) -> str:
    (folder,) = (path for path in (project.folder / ".harness" / "findings").iterdir() if path.name != "broken")
    return folder.name


def test_a_folder_of_earlier_reports_is_read_in_the_order_of_their_numbers(searched: Project) -> None:
    text = (searched.folder / "r.json").read_text(encoding="utf-8")
    (searched.folder / "nights").mkdir()
    first = searched.harness("report", "r.json", "-o", "p.html", "--history", "nights", "--markdown", "-")
    assert (first.status, "Compared with" in first.out) == (0, False)
    for night in ("10", "9"):
        searched.write(f"nights/{night}.json", text)
    searched.write("nights/other.txt", "")
    done = searched.harness("report", "r.json", "-o", "p.html", "--history", "nights", "--markdown", "-")
    assert "0 new, 1 still, 0 gone." in done.out
    page = (searched.folder / "p.html").read_text(encoding="utf-8")
    assert 0 < page.index('<th scope="row">9</th>') < page.index('<th scope="row">10</th>')


def test_a_search_becomes_a_page_a_summary_and_a_junit_file(searched: Project) -> None:
    done = searched.harness("report", "r.json", "-o", "p.html", "--markdown", "s.md", "--junit", "j.xml")
    assert (done.status, done.out, done.err) == (0, "", "p.html\ns.md\nj.xml\n")
    one = finding_of(searched)
    page = (searched.folder / "p.html").read_text(encoding="utf-8")
    assert f'id="finding-{one}"' in page
    assert 'id="grid"' in page
    summary = (searched.folder / "s.md").read_text(encoding="utf-8")
    assert summary.startswith("### kernel-harness: 1 finding: 1 warning\n\n12 cases")
    suite = ET.parse(searched.folder / "j.xml").getroot()[0]  # noqa: S314 - our own document
    assert suite.get("failures") == "1"


def test_the_default_is_a_page_of_the_stored_findings(searched: Project) -> None:
    done = searched.harness("report")
    assert (done.status, done.err) == (0, "report.html\n")
    assert finding_of(searched) in (searched.folder / "report.html").read_text(encoding="utf-8")


def test_the_summary_alone_goes_to_standard_output(searched: Project) -> None:
    done = searched.harness("report", "r.json", "--markdown", "-", "--history", "r.json")
    assert (done.status, done.err) == (0, "")
    assert "Compared with the previous report: 0 new, 1 still, 0 gone." in done.out


def test_a_damaged_finding_is_named_and_the_others_are_reported(searched: Project) -> None:
    searched.write(".harness/findings/broken/finding.json", "{")
    done = searched.harness("findings")
    one = finding_of(searched)
    first, damaged, last = done.out.splitlines()
    assert first.startswith(f"warning {one}  write-overlap: layer_norm_bwd_kernel layernorm.py:431  (seen ")
    assert damaged.startswith("not readable: .harness/findings/broken/finding.json: ")
    assert (done.status, last) == (2, "1 finding: 1 warning")
    reported = searched.harness("report", "-o", "-")
    assert (reported.status, reported.err) == (0, f"{damaged}\n")
    assert "broken/finding.json" in reported.out


def test_a_missing_path_is_a_usage_error(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("bad.json", "{")
    for arguments, done in (
        (("report",), "harness: there is no .harness/findings here or above: run harness fuzz first"),
        (("findings", "none"), "harness: there is no none: name a folder of findings"),
        (("report", "bad.json"), "harness: nothing of it can be read: bad.json: not readable as JSON"),
    ):
        found = project.harness(*arguments)
        assert (found.status, found.out) == (2, "")
        assert found.err.startswith(done)


def test_writing_a_page_loads_neither_torch_nor_triton(searched: Project) -> None:
    program = (
        "import sys; from harness.cli import main; status = main(['report', 'r.json', '-o', 'q.html']); "
        "sys.exit(status or ', '.join({'torch', 'triton'} & set(sys.modules)) or 0)"
    )
    child = subprocess.run([sys.executable, "-c", program], cwd=searched.folder, capture_output=True, check=False)
    assert child.returncode == 0


def test_the_junit_file_of_pytest_identifies_findings(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.write("suites/norm.py", suite_of("overlapping"))
    repository.pytest("suites", "-m", "sm_120", "--junitxml", "j.xml")
    (test,) = ET.parse(tmp_path / "j.xml").getroot().iter("testcase")  # noqa: S314 - pytest's document
    told = {one.get("name"): one.get("value") for one in test.iter("property")}
    (stored,) = (tmp_path / ".harness" / "findings").iterdir()
    finding = json.loads((stored / "finding.json").read_text(encoding="utf-8"))
    assert told == {
        "searched_device": "rtx-pro-6000",
        "search_seed": "1",
        "ran_on": "tests.cli.fake_engine:FakeEngine",
        "cases": "6",
        "finding": stored.name,
        "signature": finding["signature"],
        "severity": "warning",
        "device": "rtx-pro-6000",
        "sm_count": str(finding["case"]["device"]["sm_count"]),
        "seed": str(finding["case"]["seed"]),
        "case": told["case"],
        "confirmation": "confirmed",
        "untried": "resources of kernels: overlapping on rtx-pro-6000",
    }
