"""`harness report` and `harness findings`, through processes, after a real search."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.fake_engine import suite_of
from tests.cli.test_cli import ON, Place
from tests.pytest_plugin.test_suites import Repository

pytestmark = [pytest.mark.slow, pytest.mark.once]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A folder in which a search has found one bug."""
    place = Place(tmp_path_factory.mktemp("searched"))
    place.write("suites/norm.py", suite_of("overlapping", "faultless"))
    said = place.harness("fuzz", "suites", "--cases", "12", *ON, "--json", "r.json")
    assert said.status == 1
    return place


def finding_of(place: Place) -> str:
    (folder,) = (path for path in (place.folder / ".harness" / "findings").iterdir() if path.name != "broken")
    return folder.name


def test_a_search_becomes_a_page_a_summary_and_a_junit_file(searched: Place) -> None:
    said = searched.harness("report", "r.json", "-o", "p.html", "--markdown", "s.md", "--junit", "j.xml")
    assert (said.status, said.out, said.err) == (0, "", "p.html\ns.md\nj.xml\n")
    one = finding_of(searched)
    page = (searched.folder / "p.html").read_text(encoding="utf-8")
    assert f'id="finding-{one}"' in page
    assert 'id="grid"' in page
    summary = (searched.folder / "s.md").read_text(encoding="utf-8")
    assert summary.startswith("### kernel-harness: 1 finding: 1 warning\n\n12 cases")
    suite = ET.parse(searched.folder / "j.xml").getroot()[0]  # noqa: S314 - our own document
    assert suite.get("failures") == "1"


def test_the_page_of_the_usual_folder_has_the_usual_name(searched: Place) -> None:
    said = searched.harness("report")
    assert (said.status, said.err) == (0, "report.html\n")
    assert finding_of(searched) in (searched.folder / "report.html").read_text(encoding="utf-8")


def test_the_summary_alone_goes_to_standard_output(searched: Place) -> None:
    said = searched.harness("report", "r.json", "--markdown", "-", "--history", "r.json")
    assert (said.status, said.err) == (0, "")
    assert "Against the report before: 0 new, 1 still, 0 gone." in said.out


def test_what_is_damaged_is_named_and_the_rest_reported(searched: Place) -> None:
    searched.write(".harness/findings/broken/finding.json", "{")
    said = searched.harness("findings")
    one = finding_of(searched)
    first, damaged, last = said.out.splitlines()
    assert first.startswith(f"warning {one}  write-overlap: layer_norm_bwd_kernel layernorm.py:431  (seen ")
    assert damaged.startswith("not readable: .harness/findings/broken/finding.json: ")
    assert (said.status, last) == (0, "1 finding: 1 warning")
    reported = searched.harness("report", "-o", "-")
    assert (reported.status, reported.err) == (0, f"{damaged}\n")
    assert "broken/finding.json" in reported.out


def test_what_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("bad.json", "{")
    for arguments, said in (
        (("report",), "harness: there is no .harness/findings here: run harness fuzz first"),
        (("findings", "none"), "harness: there is no none: name a folder of findings"),
        (("report", "bad.json"), "harness: nothing of it can be read: bad.json: not readable as JSON"),
    ):
        found = place.harness(*arguments)
        assert (found.status, found.out) == (2, "")
        assert found.err.startswith(said)


def test_the_page_is_made_where_nothing_of_the_library_is_installed(searched: Place) -> None:
    program = (
        "import sys; from harness.cli import main; status = main(['report', 'r.json', '-o', 'q.html']); "
        "sys.exit(status or ', '.join({'torch', 'triton'} & set(sys.modules)) or 0)"
    )
    child = subprocess.run([sys.executable, "-c", program], cwd=searched.folder, capture_output=True, check=False)
    assert child.returncode == 0


def test_pytest_writes_what_identifies_a_finding_into_its_own_junit_file(tmp_path: Path) -> None:
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
        "ran_on": "tests.cli.fake_engine:Pretending",
        "cases": "6",
        "finding": stored.name,
        "signature": finding["signature"],
        "severity": "warning",
        "device": "rtx-pro-6000",
        "sm_count": str(finding["case"]["device"]["sm_count"]),
        "seed": str(finding["case"]["seed"]),
        "case": told["case"],
    }
