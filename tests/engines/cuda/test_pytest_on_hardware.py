"""`pytest suites -n auto` on hardware: one process per GPU, with several searches at once."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.engines.cuda.gpus.inventory import RealGpu
from tests import plugin

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(find_spec("xdist") is None, reason="pytest-xdist is not installed"),
]

ROOT = Path(__file__).resolve().parents[3]
PLANTED = ROOT / "suites" / "planted"


def test_concurrent_searches_find_what_each_finds_alone(tmp_path: Path, gpu: RealGpu) -> None:
    suites = [str(PLANTED / "dropped_term.py"), str(PLANTED / "unwritten_tail.py")]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *plugin.arguments(), "-p", "no:cacheprovider", "-m", "blackwell"),
            *("--harness-cases", "6", "--harness-seed", "1", "-n", "auto", "-rA", *suites),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))},
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, output
    lines = [line.split() for line in output.splitlines() if line.startswith(("PASSED", "FAILED"))]
    outcomes = {test.rpartition("::")[2]: outcome for outcome, test, *_ in lines}
    assert outcomes == {
        f"{name}{repaired}[{device}]": "PASSED" if repaired else "FAILED"
        for name in ("dropped_term", "unwritten_tail")
        for repaired in ("", "_repaired")
        for device in ("b200", "rtx-pro-6000")
    }, output
    assert f"on {gpu.name} ({gpu.sm_count} SMs): 8 tests, 48 cases" in output
