"""`make test` and `make test-all` together run every test: their commands are read as make would run them."""

import os
import re
import shlex
import shutil
import subprocess

import pytest

from tests.cli.command_line import ROOT
from tests.conftest import DEPENDENT, depends, is_unread

TESTS = ROOT / "tests"
MAKE = shutil.which("make") or "/usr/bin/make"
GPU_MARK = "mark" + ".gpu"  # in two parts, so that this file has none
SPREAD = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
OF_MAKE = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "ARGS", "JOBS", "PYTHON", "VENV", "VENV_39"}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
"""Without what a make hands on that runs these tests."""
SELECTING = {"-m", "-k", "--ignore", "--ignore-glob", "--deselect", "--last-failed"}


def script(target: str, *settings: str) -> str:
    """Return what make would run for a target."""
    command = [MAKE, "--dry-run", "--always-make", target, *settings]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout.replace("\\\n", " ")


def commands(target: str, *settings: str) -> list[list[str]]:
    """Return the runs of pytest of a target, without their interpreter."""
    runs = [shlex.split(line) for line in script(target, *settings).splitlines() if "-m pytest" in line]
    return [[run[0].split("/")[0], *run[3:]] for run in runs]


def test_test_all_selects_no_part_of_the_tests() -> None:
    assert commands("test-all") == [[".venv", *SPREAD], [".venv-triton39", *SPREAD]]


def test_no_setting_of_pytest_selects_a_part_of_the_tests(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.getini("testpaths") == ["tests"]
    assert not SELECTING & {word.split("=")[0] for word in pytestconfig.getini("addopts")}
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "conftest.py", *TESTS.rglob("conftest.py"))]
    assert not [text for text in texts if re.search(r"collect_ignore|pytest_deselected", text)]
    assert sum(text.count("pytest_ignore_collect") for text in texts) == 1


def test_files_stay_unread_only_where_all_tests_are_for_both_tritons() -> None:
    files = [*TESTS.rglob("test_*.py")]
    for marks in ("", "not nightly", "not slow and not nightly", "both or slow", "not both"):
        assert not [file for file in files if is_unread(file, marks)]
    unread = {file for file in files if is_unread(file, "both and not nightly")}
    marked = {file for file in files if re.search(r"mark\.both\b", file.read_text(encoding="utf-8"))}
    assert unread == {file for file in files if not depends(file)} - marked != set()


def test_every_test_function_is_in_a_file_that_pytest_collects() -> None:
    others = [path for path in TESTS.rglob("*.py") if not path.name.startswith("test_")]
    assert [
        path for path in others if re.search(r"^def test_\w+\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    ] == []


def test_make_test_leaves_out_only_what_is_nightly() -> None:
    first, second = commands("test")
    assert first == [".venv", *SPREAD, "-m", "not nightly"]
    assert second == [".venv-triton39", *SPREAD, "-m", "both and not nightly"]


def test_a_part_without_a_test_of_both_tritons_is_no_failure() -> None:
    assert "-eq 5" not in script("test")
    _, second = commands("test", "ARGS=tests/ci")
    assert second[-7:] == ["tests/ci", "||", "[", "$?", "-eq", "5", "]"]


def test_what_depends_on_triton_is_there() -> None:
    assert [path for path in DEPENDENT if not path.exists()] == []


def test_make_test_gpu_reaches_every_test_that_needs_a_gpu() -> None:
    (run,) = commands("test-gpu")
    rooms = [ROOT / word for word in run if word.startswith("tests/")]
    marked = [path for path in TESTS.rglob("test_*.py") if GPU_MARK in path.read_text(encoding="utf-8")]
    assert marked
    assert [path for path in marked if not any(path.is_relative_to(room) for room in rooms)] == []
