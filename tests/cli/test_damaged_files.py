"""A file that is damaged, of another kind, or missing is an error of one line that names it and the remedy."""

from pathlib import Path

import pytest

from harness.cli import main
from harness.documents import files
from harness.documents.finding import finding_document
from harness.findings import store
from tests.findings.test_recorded_cases import FINDING, report

OF_ONE_FINDING = ("replay", "keep", "report --issue", "repro", "region", "bisect")
DAMAGED = {
    "broken.json": b'{"kind": ',
    "empty.json": b"",
    "list.json": b"[1]",
    "other.json": b'{"a": 1}',
    "binary.json": b"\xff\xfe\x00",
    "program.py": b"print(1)",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, content in DAMAGED.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    return tmp_path


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the line of a command that fails."""
    command, *rest = arguments
    assert main([*command.split(), *rest]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", OF_ONE_FINDING)
class TestCommandsOfOneFinding:
    @pytest.mark.parametrize("file", DAMAGED)
    def test_a_damaged_file(self, capsys: pytest.CaptureFixture[str], command: str, file: str) -> None:
        line = error_of(capsys, command, file)
        assert line.startswith(f"harness: {file}: ")
        assert line.endswith(": name the id of a stored finding, or a file that harness fuzz wrote")

    @pytest.mark.parametrize("file", ["missing.json", "nowhere/missing"])
    def test_a_missing_file(self, capsys: pytest.CaptureFixture[str], command: str, file: str) -> None:
        line = error_of(capsys, command, file)
        assert line == f"harness: there is no {file}: name a file of findings, or the id of a stored one"

    def test_a_folder_of_something_else(self, capsys: pytest.CaptureFixture[str], command: str) -> None:
        line = error_of(capsys, command, "folder")
        assert line == "harness: folder holds no finding.json: name the folder of one finding, or its id"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["report", "findings"])
class TestCommandsOfAllFindings:
    @pytest.mark.parametrize("file", DAMAGED)
    def test_a_damaged_file(self, capsys: pytest.CaptureFixture[str], command: str, file: str) -> None:
        line = error_of(capsys, command, file)
        assert line.startswith(f"harness: nothing of it can be read: {file}: ")
        assert line.endswith(": name a folder of findings, or a report of harness fuzz --json")

    def test_a_missing_file(self, capsys: pytest.CaptureFixture[str], command: str) -> None:
        line = error_of(capsys, command, "missing.json")
        assert line == (
            "harness: there is no missing.json: name a folder of findings, or a report of harness fuzz --json"
        )


def write_finding_and_suite(folder: Path, suite: str) -> None:
    """Write a finding, and a suite where it says that its op is."""
    path = folder / "suites" / "fla" / "norm.py"
    path.parent.mkdir(parents=True)
    path.write_text(suite, encoding="utf-8")
    files.write(finding_document(FINDING), folder / "finding.json")


@pytest.mark.parametrize("command", [one for one in OF_ONE_FINDING if one not in {"keep", "report --issue"}])
def test_an_op_that_its_suite_lacks_is_named(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    write_finding_and_suite(
        folder,
        "from harness.suite import op\n\n\n@op(dims={}, inputs={})\ndef other():\n    pass\n\n\n"
        "@other.reference\ndef _():\n    pass\n",
    )
    assert error_of(capsys, command, "finding.json") == (
        f"harness: {FINDING.id} is of op 'layer_norm', and suites/fla/norm.py declares other: "
        "take the suite that declared it"
    )


@pytest.mark.parametrize("command", [one for one in OF_ONE_FINDING if one not in {"keep", "report --issue"}])
def test_a_case_with_other_dims_than_its_op_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    write_finding_and_suite(
        folder,
        "from harness.suite import op, tokens\n\n\n@op(dims={'T': tokens(), 'W': tokens()}, inputs={})\n"
        "def layer_norm():\n    pass\n\n\n@layer_norm.reference\ndef _():\n    pass\n",
    )
    assert error_of(capsys, command, "finding.json") == (
        f"harness: {FINDING.id}: case.dims lacks W and has D, which is no dim of the op and has G, which is no dim of "
        "the op (suites/fla/norm.py:layer_norm)"
    )


def test_a_store_with_an_unreadable_finding_lists_the_others_and_ends_with_2(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.save((FINDING,), folder / "kept", lambda _: "", {})
    (folder / "kept" / "damaged").mkdir()
    (folder / "kept" / "damaged" / "finding.json").write_text("{", encoding="utf-8")
    assert main(("findings", "kept")) == 2
    lines = capsys.readouterr().out.splitlines()
    assert FINDING.id in lines[0]
    assert lines[1].startswith("not readable: kept/damaged/finding.json: ")
    assert lines[2] == "1 finding: 1 warning"


def test_a_report_without_findings_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = report()
    files.write(made, folder / "r.json")
    assert error_of(capsys, "replay", "r.json") == "harness: r.json holds no findings: there is nothing to replay"


def test_keep_names_a_folder_that_cannot_be_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store.save((FINDING,), folder / "kept", lambda _: "", {})
    (folder / "blocked").write_text("", encoding="utf-8")
    line = error_of(capsys, "keep", f"kept/{FINDING.id}", "--in", "blocked/here")
    assert line == (
        f"harness: cannot write blocked/here/{FINDING.id}.json: Not a directory: name another folder by --in"
    )
