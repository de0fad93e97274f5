"""Files of somebody else run no code of theirs, and what is wrong in them is an error."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.documents import files
from harness.documents.finding import FindingDocument
from harness.reports.finding_text import Sources, render
from tests.cli.command_line import ENGINE, ON, Project
from tests.cli.fake_engine import suite_of

pytestmark = pytest.mark.slow

EVIL = "import pathlib\npathlib.Path('{mark}').touch()\n"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A finding of `suites/norm.py:overlapping`."""
    project = Project(tmp_path_factory.mktemp("found"))
    project.write("suites/norm.py", suite_of("overlapping"))
    assert project.harness("fuzz", "suites", "--cases", "10", "--oracle", "write-overlap", *ON).status == 1
    (stored,) = (project.folder / ".harness" / "findings").glob("[!.]*")
    return json.loads((stored / "finding.json").read_text(encoding="utf-8"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "mine")
    project.write("pyproject.toml", "")
    project.write("suites/norm.py", suite_of("overlapping"))
    return project


def with_case(found: dict[str, Any], **changed: object) -> dict[str, Any]:
    return {**found, "case": {**found["case"], **changed}}


@pytest.mark.parametrize("of", ["suite", "folder", "import path", "variable"])
def test_code_outside_the_project_runs_only_if_it_is_trusted(
    project: Project, tmp_path: Path, found: dict[str, Any], of: str
) -> None:
    mark, theirs = tmp_path / "ran", Project(tmp_path / "theirs")
    theirs.write("pyproject.toml", "")
    theirs.write("suites/theirs.py", EVIL.format(mark=mark) + suite_of("overlapping"))
    theirs.write("library/package/__init__.py", "")
    document, named = {
        "suite": (with_case(found, op="suites/theirs.py:overlapping"), f"{theirs.folder}/suites/theirs.py"),
        "folder": ({**found, "libraries": [f"{theirs.folder}/library"]}, f"{theirs.folder}/library"),
        "import path": ({**found, "import_paths": ["../theirs/library"]}, f"{theirs.folder}/library"),
        "variable": (with_case(found, environment=[["LD_PRELOAD", "theirs.so"]]), "LD_PRELOAD=theirs.so"),
    }[of]
    theirs.write("bug.json", json.dumps(document))
    refused = project.harness("replay", "../theirs/bug.json", *ENGINE)
    assert (refused.status, refused.out, mark.exists()) == (2, "", False)
    assert f"runs code from outside this project by {named}: read it, and then add --trust" in refused.err
    reported = project.harness("report", "../theirs/bug.json", "--markdown", "-")
    assert (reported.status, mark.exists()) == (0, False)
    if of != "variable":
        trusted = project.harness("replay", "../theirs/bug.json", "--trust", *ENGINE)
        assert (trusted.status, mark.exists()) == (1, of == "suite")


def test_a_library_that_the_user_has_named_here_is_trusted(project: Project, tmp_path: Path) -> None:
    project.write("../library/package/__init__.py", "")
    project.harness("fuzz", "suites", "--with", "../library", "--cases", "10", "--oracle", "write-overlap", *ON)
    (stored,) = (project.folder / ".harness" / "findings").glob("[!.]*")
    assert json.loads((stored / "finding.json").read_text(encoding="utf-8"))["libraries"] == [str(tmp_path / "library")]
    assert project.harness("replay", stored.name, *ENGINE).status == 1


def test_an_oracle_that_this_release_lacks_is_an_error(project: Project, found: dict[str, Any]) -> None:
    project.write("bug.json", json.dumps({**found, "oracle": "write-overlaps"}))
    done = project.harness("replay", "bug.json", *ENGINE)
    assert (done.status, done.out) == (2, "")
    assert "unknown oracle 'write-overlaps': did you mean write-overlap" in done.err


def test_escapes_of_a_file_are_printed_as_text(project: Project, found: dict[str, Any]) -> None:
    escape = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
    named = {"message": f"{escape}y", "place": f"y{escape}", "meaning": escape, "kernel": f"k{escape}"}
    project.write("bug.json", json.dumps({**found, **named, "libraries": [escape]}))
    for arguments in (
        ("findings", "bug.json"),
        ("report", "bug.json", "--markdown", "-"),
        ("report", "bug.json", "--issue"),
        ("replay", "bug.json", *ENGINE),
        ("replay", f"{escape}.json"),
    ):
        done = project.harness(*arguments)
        shown = done.out + done.err
        assert not set(shown) & set("\x1b\x07\x9b\u202e"), arguments
        assert "␛" in shown or "\\x1b" in shown, arguments


def test_escapes_of_a_finding_are_text_in_pytest_and_in_the_store(found: dict[str, Any]) -> None:
    document = {**found, "message": "\x1b[2J", "place": "\x1b[31m"}
    finding = files.loads(json.dumps(document), FindingDocument).finding
    text = render(finding, Sources()).plain
    assert ("\x1b" in text, "␛[2J" in text) == (False, True)
