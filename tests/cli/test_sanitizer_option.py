"""The option `--sanitizer`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import catalogue
from harness.cli import main
from harness.cli.command import ExitStatus
from harness.documents import files
from harness.documents.finding import CaseDocument
from harness.model.case import Case, DType

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "tests" / "workers" / "sanitized" / "reporting.py"
STAND_IN = ROOT / "tests" / "workers" / "sanitized" / "fake_sanitizer.py"


def test_the_virtual_gpu_refuses_sanitizers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fuzz", str(SUITE), "--sanitizer", "memcheck"]) == ExitStatus.ERROR
    assert capsys.readouterr().err == "harness: --sanitizer watches kernels on a real GPU: add --engine cuda\n"


@pytest.mark.parametrize("command", ["fuzz", "replay"])
def test_a_missing_file_of_accepted_reports_is_an_error(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, str(SUITE), "--sanitizer", "memcheck", "--accepts", "typo.toml"]) == ExitStatus.ERROR
    assert "argument --accepts: there is no file 'typo.toml'" in capsys.readouterr().err


@pytest.mark.nightly
@pytest.mark.slow
def test_a_sanitizer_report_makes_a_replayed_case_fail(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "compute-sanitizer"
    tool.parent.mkdir()
    tool.write_text(
        f'#!/bin/sh\n[ "$1" = --help ] && echo "Version 1" && exit\nexec "{sys.executable}" "{STAND_IN}" all -- "$@"\n',
        encoding="utf-8",
    )
    tool.chmod(0o755)
    straying = Case(op=f"{SUITE}:strays", dims={"rows": 5}, dtype=DType.FP32, device=catalogue.find("h200"))
    files.write(CaseDocument(case=straying), tmp_path / "case.json")
    engine = ("--engine", "tests.workers.sanitized.reporting:Launching", "--sanitizer", "memcheck")
    run = subprocess.run(
        [sys.executable, "-m", "harness.cli", "replay", "case.json", "--trust", *engine],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{tool.parent}:{os.environ['PATH']}", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.stderr == ""
    printed = " ".join(run.stdout.split())
    assert "ERROR compute-sanitizer scale_kernel in strays" in printed
    assert (
        "memcheck: Invalid __global__ write of size 4 bytes is out of bounds in 5 reports, first by program (3, 0, 0), "
        "thread (0, 0, 0) in scale_kernel (kernels.py:9)"
    ) in printed
    assert run.returncode == 1
