"""`harness conform` and `--engine cuda,virtual` where there is no GPU; `tests/cuda` has them where there is one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.command import BROKEN
from tests.cuda import simulated_driver

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "arguments",
    [("conform", "suites/fla/norm.py"), ("fuzz", "suites/fla/norm.py", "--engine", "cuda,virtual")],
    ids=["conform", "fuzz"],
)
def test_what_compares_with_a_real_gpu_says_at_once_that_there_is_none(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    driver = simulated_driver.build(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", *arguments],
        cwd=ROOT,
        env={**os.environ, "LD_LIBRARY_PATH": str(driver), "PRETENDED_GPUS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == BROKEN
    assert done.stderr.startswith("harness: no GPU for cases: ")
    assert done.stderr.count("\n") == 1
