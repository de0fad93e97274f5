"""The PTX machine notices mutants of compiled kernels, but for those that change nothing."""

import subprocess
import sys

import pytest

HARMLESS = {"barrier removed", "wait removed", "wait count raised"}
"""Of one product, the first barrier and the last wait order nothing."""


@pytest.mark.nightly
def test_mutants_of_compiled_kernels_are_noticed() -> None:
    command = [sys.executable, "-m", "studies.ptx_mutants", "--most", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    survivors = [line for line in done.stdout.splitlines() if line.startswith("survives: ")]
    assert all(line.startswith("survives: matmul ") for line in survivors)
    assert {line.split(", ")[1].partition(":")[0] for line in survivors} <= HARMLESS
