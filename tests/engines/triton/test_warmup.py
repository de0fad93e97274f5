"""Host code may compile a kernel with `warmup`, read its resources, and launch as many programs as fit."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SUITE = Path(__file__).with_name("warmup_suite.py")


@pytest.mark.slow
def test_a_warmed_up_kernel_has_its_registers_and_shared_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", "fuzz", str(SUITE), "--cases", "6", "--seed", "1", "--device", "h200"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "6 passed, 0 failed" in done.stdout) == (0, True), done.stdout + done.stderr
