"""`--survey conformance` and `--engine cuda,virtual` without a GPU; `tests/engines/cuda` runs them on one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.command import ExitStatus
from tests.engines.cuda import simulated_driver

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "arguments",
    [("--survey", "conformance"), ("--engine", "cuda,virtual")],
    ids=["survey", "search"],
)
def test_comparing_with_a_hardware_gpu_needs_one(arguments: tuple[str, ...], tmp_path: Path) -> None:
    driver = simulated_driver.build(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", "fuzz", "suites/fla/norm.py", *arguments],
        cwd=ROOT,
        env={**os.environ, "LD_LIBRARY_PATH": str(driver), "SIMULATED_GPUS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitStatus.ERROR
    assert done.stderr.startswith("harness: no GPU for cases: ")
    assert done.stderr.count("\n") == 1
