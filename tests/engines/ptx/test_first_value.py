"""The first wrong value of a launch, and why it may not be known."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.engines.ptx.first_value import HIDDEN

SCRIPT = Path(__file__).with_name("wrong_code.py")


@pytest.mark.slow
def test_a_difference_that_vanishes_when_values_are_looked_at_says_so(tmp_path: Path) -> None:
    def printed() -> str:
        command = [sys.executable, str(SCRIPT), str(tmp_path / "builds")]
        environment = {"TRITON_CACHE_DIR": str(tmp_path / "triton"), "PYTHONPATH": str(SCRIPT.parents[3])}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    assert printed() == ""
    (kept,) = (tmp_path / "builds").glob("*.ptx")
    kept.write_text(kept.read_text().replace("add.f32", "sub.f32"))
    assert printed() == f"y {HIDDEN}; the kernel stores at wrong_code.py:27\n"
