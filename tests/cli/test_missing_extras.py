"""Commands without their optional dependencies, and without those that `pip install --no-deps` leaves out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import extras
from harness.cli import COMMANDS, EXTRAS, main
from harness.cli.command import ExitStatus
from tests.cli.command_line import ROOT


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("repro", "harness repro needs libcst and ruff: pip install 'kernel-harness[repro]'"),
    ],
)
def test_a_command_names_its_missing_extra(
    command: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)  # noqa: ARG005 - as the original calls it
    assert main([command, "suites"]) == ExitStatus.ERROR
    assert capsys.readouterr() == ("", f"harness: {message}\n")


@pytest.mark.parametrize(
    ("package", "command", "message"),
    [
        ("torch", ["fuzz", "planted:overlapping_store"], "the engine needs torch"),
        ("triton", ["matrix", "planted:overlapping_store", "--device", "h200"], "the engine needs triton"),
        ("rich", ["findings"], "harness findings needs rich"),
    ],
)
def test_one_line_names_a_dependency_that_is_not_installed(
    package: str, command: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{package!r}] = None\n", encoding="utf-8")
    child = subprocess.run(
        [sys.executable, "-m", "harness.cli", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    expected = f"harness: {message}, which is not installed: pip install kernel-harness\n"
    assert (child.returncode, child.stdout, child.stderr) == (ExitStatus.ERROR, "", expected)


def test_only_the_page_of_a_report_needs_an_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "findings").mkdir()
    monkeypatch.setattr(extras, "find_spec", lambda name: None)  # noqa: ARG005 - as the original calls it
    assert main(["report", "findings", "--markdown", "summary.md"]) == ExitStatus.CLEAN
    assert main(["report", "findings"]) == ExitStatus.ERROR
    needed = "the page of harness report needs jinja2 and pygments: pip install 'kernel-harness[report]'"
    assert capsys.readouterr().err == f"no page: {needed}\nsummary.md\nharness: {needed}\n"


@pytest.mark.parametrize(
    "module", ["harness.pytest_plugin.items", *(f"harness.cli.{one.replace('-', '_')}" for one in COMMANDS)]
)
def test_other_commands_work_without_any_extra(module: str) -> None:
    if module.rpartition(".")[2] in EXTRAS:
        pytest.skip("it needs its extra")
    program = f"import sys; sys.modules.update(libcst=None, jinja2=None, ruff=None); import {module}"
    child = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (child.returncode, child.stderr) == (0, "")
