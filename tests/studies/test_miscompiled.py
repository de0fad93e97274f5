"""Public miscompilations of Triton show on the PTX machine with a bad release, and not with a good one."""

import subprocess
import sys

import pytest
from triton import __version__ as release

from studies.miscompiled.miscompiled_kernel import NAMES, expected, load

QUICK = ("call_barrier",)
"""A race, which values do not show."""
FIRST_VALUE = """
from studies.miscompiled.miscompiled_kernel import load, look_into
seen = look_into(load("masked_load_other"), "", blames_passes=False)
print(seen and seen.first)
"""


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


@pytest.mark.slow
def test_the_first_wrong_value_of_a_miscompiled_kernel_is_named() -> None:
    command = [sys.executable, "-c", FIRST_VALUE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    if not expected(load("masked_load_other"), release):
        assert done.stdout == "None\n"
        return
    assert done.stdout == (
        "%2 = arith.muli at masked_load_other.py:27: element [33] is 96, by TTIR 99 (72 of 128 elements differ)\n"
    )


@pytest.mark.slow
@pytest.mark.nightly
def test_the_pass_that_flattens_an_empty_loop_is_blamed() -> None:
    command = [sys.executable, "-m", "studies.miscompiled", "--blame", "flattened_empty_loop"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "first value: %count_4 = arith.addi at flattened_empty_loop.py:25: 1, by TTIR not computed" in done.stdout
    assert "blamed pass: ttgpuir.add_fuse_nested_loops: right without it (41 passes were left out" in done.stdout
