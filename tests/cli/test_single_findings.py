"""A single finding is accepted wherever a report is: by its id, its folder or its file; and a report where one is."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness import catalogue
from harness.cli import main
from harness.documents import files
from harness.documents.finding import RegressionDocument
from harness.findings import store
from harness.findings.bisection.stored_bisections import save as save_bisection
from harness.findings.region.record import save as save_region
from tests.findings.test_report_merging import reported, shard
from tests.reports.samples import BISECTION, OVERLAP, REGION, REPORT, VALUES

WAYS = ("id", "folder", "file", "copy.json")


@pytest.fixture
def ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A project with two stored findings, and the ways to name the first."""
    monkeypatch.chdir(tmp_path)
    elsewhere = replace(OVERLAP.case, device=catalogue.find("b200"))
    overlap = replace(OVERLAP, cases=(OVERLAP.case, elsewhere))
    folder, _ = store.save([overlap, VALUES], store.FOLDER, lambda one: one.fail.message, REPORT.versions)
    (folder / "repro.py").write_text("print('again')\n", encoding="utf-8")
    save_region(REGION, folder / store.FINDING, store.FOLDER)
    shutil.copy(folder / store.FINDING, "copy.json")
    files.write(REPORT, Path("report.json"))
    return {"id": OVERLAP.id, "folder": str(folder), "file": str(folder / store.FINDING), "copy.json": "copy.json"}


@pytest.mark.parametrize("way", WAYS)
def test_one_finding_is_listed(ways: dict[str, str], way: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["findings", ways[way]]) == 0
    listed, count = capsys.readouterr().out.splitlines()
    assert listed.startswith(f"warning {OVERLAP.id}  {OVERLAP.fail.signature}")
    assert count == "1 finding: 1 warning"


@pytest.mark.parametrize("way", WAYS)
def test_the_page_of_one_finding_has_its_region_and_reproducer(ways: dict[str, str], way: str) -> None:
    assert main(["report", ways[way]]) == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert "1 finding: 1 warning" in page
    assert "follows no simple rule" in page
    assert "again" in page
    assert "triton 3.6.0" in page


def test_a_stored_bisection_is_on_the_page(ways: dict[str, str]) -> None:
    assert save_bisection(BISECTION, Path(ways["copy.json"])) is None
    kept = save_bisection(replace(BISECTION, subject="fla core/x"), Path(ways["file"]))
    assert kept == Path(ways["folder"], "bisection-fla-core-x.json")
    assert main(["report", ways["id"]]) == 0
    assert "came with fla-core 0.5.0" in Path("report.html").read_text(encoding="utf-8")


def test_one_finding_beside_its_report_is_reported_once(
    ways: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["findings", "report.json", ways["file"]]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 findings: 2 errors, 1 warning"


@pytest.mark.usefixtures("ways")
def test_an_unknown_id_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "0123abcd"]) == 2
    assert capsys.readouterr().err.startswith("harness: there is no 0123abcd: name ")


@pytest.mark.usefixtures("ways")
def test_a_regression_is_kept_from_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keep", "report.json", "--finding", VALUES.id, "--in", "kept"]) == 0
    (path,) = capsys.readouterr().out.splitlines()
    assert files.read(Path(path), RegressionDocument).failure == VALUES.fail.signature


@pytest.mark.usefixtures("ways")
def test_keep_asks_which_finding_of_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keep", "report.json"]) == 2
    assert "report.json holds 3 findings: choose one with --finding" in capsys.readouterr().err


def test_an_issue_holds_the_stored_reproducer(ways: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", ways["id"], "--issue"]) == 0
    done = capsys.readouterr()
    assert done.out.startswith("# layer\\_norm\\_bwd\\_kernel: dx\\[2, 0\\]")
    assert "```python\nprint('again')\n```" in done.out
    assert "NVIDIA B200 (sm\\_100), with 148 SMs" in done.out
    assert done.err == ""


@pytest.mark.usefixtures("ways")
def test_the_parts_of_an_issue_are_separate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "report.json", "--issue", "--finding", VALUES.id, "--part", "title"]) == 0
    assert capsys.readouterr().out == f"{VALUES.case.op_name}: {VALUES.fail.message}\n"
    assert main(["report", "report.json", "--issue", "--finding", VALUES.id, "--part", "body", "-o", "issue.md"]) == 0
    assert Path("issue.md").read_text(encoding="utf-8").startswith(r"**d:x\[1, 2, 4\] is nan**")
    remedy = f"no reproducer is stored: run harness repro {VALUES.id} first, and the text holds it"
    assert capsys.readouterr().err == f"issue.md\n{remedy}\n"


@pytest.mark.usefixtures("ways")
def test_one_command_writes_the_page_and_the_files_for_ci(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--markdown", "summary.md", "--junit", "junit.xml", "--sarif", "harness.sarif"]) == 0
    assert capsys.readouterr().err.splitlines() == ["report.html", "summary.md", "junit.xml", "harness.sarif"]
    assert all(Path(name).stat().st_size for name in ("report.html", "summary.md", "junit.xml", "harness.sarif"))


@pytest.mark.usefixtures("ways")
def test_standard_output_gets_no_page_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--sarif", "-", "--junit", "junit.xml"]) == 0
    done = capsys.readouterr()
    assert done.out.startswith("{")
    assert done.err == "junit.xml\n"
    assert not Path("report.html").exists()


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize(
    "arguments", [("keep", "--in", "kept"), ("report", "--issue"), ("findings",), ("report",)], ids=" ".join
)
def test_the_report_of_a_shard_is_a_report_too(arguments: tuple[str, ...]) -> None:
    files.write(shard(1, reported(1, VALUES)), Path("shard.json"))
    command, *options = arguments
    assert main([command, "shard.json", *options]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--merge"], "--merge needs the reports to merge: what harness fuzz --json wrote"),
        (["--issue"], "--issue needs one finding: its id, or the file that holds it"),
        (["a.json", "--merge", "--markdown", "sum.md"], "--markdown does not go with --merge"),
        (["a.json", "--issue", "--history", "old.json"], "--history does not go with --issue"),
        (["--json", "merged.json"], "--json needs --merge"),
        (["88892a72", "--part", "title"], "--part needs --issue"),
    ],
    ids=" ".join,
)
def test_an_option_of_another_form_is_a_usage_error(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *options]) == 2
    assert capsys.readouterr().err == f"harness: {message}\n"
