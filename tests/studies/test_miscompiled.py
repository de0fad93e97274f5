"""Public miscompilations of Triton show on the PTX machine with a bad release, and not with a good one."""

import subprocess
import sys

import pytest
from triton import __version__ as release

from studies.miscompiled.miscompiled_kernel import NAMES, expected, load

QUICK = ("call_barrier",)
"""A race, which values do not show."""


@pytest.mark.both
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.nightly) for name in NAMES]
)
def test_a_miscompiled_kernel_shows_on_bad_releases_alone(name: str) -> None:
    command = [sys.executable, "-m", "studies.miscompiled", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (": values and accesses" not in done.stdout) is expected(load(name), release)
