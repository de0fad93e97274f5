"""What ops and kernels print is shown on request, by the commands and by pytest."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import plugin
from tests.cli.command_line import Project

pytestmark = pytest.mark.slow

KERNELS = """
import triton
import triton.language as tl


@triton.jit
def double_kernel(x, y, N, B: tl.constexpr):
    at = tl.arange(0, B)
    value = tl.load(x + at, mask=at < N, other=0.0)
    tl.device_print("seen by the kernel", value)
    tl.store(y + at, value * 2, mask=at < N)
"""
SUITE = """
from harness.suite import Dim, beside, op, tensor


@op(dims={"N": Dim(low=4, high=4)}, inputs={"x": tensor("N", grad=False, contiguous=True)})
def double(x):
    import torch

    print("printed by the op")
    y = torch.empty_like(x)
    beside(__file__, "kernels.py").double_kernel[(1,)](x, y, x.numel(), 4)
    return y


@double.reference
def _(x):
    return 2 * x
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.write("suites/kernels.py", KERNELS)
    project.write("suites/doubling.py", SUITE)
    return project


@pytest.mark.parametrize(("option", "is_shown"), [((), False), (("-s",), True)])
def test_fuzz_shows_what_ops_and_kernels_print(project: Project, option: tuple[str, ...], *, is_shown: bool) -> None:
    done = project.harness("fuzz", "suites/doubling.py", "--cases", "2", "--device", "h200", "--seed", "1", *option)
    assert done.status == 0, done.out + done.err
    assert ("printed by the op" in done.out, "pid (0, 0, 0) seen by the kernel: [" in done.out) == (is_shown, is_shown)


@pytest.mark.nightly
@pytest.mark.parametrize(("option", "is_shown"), [((), False), (("-s",), True)])
def test_pytest_shows_what_ops_and_kernels_print(project: Project, option: tuple[str, ...], *, is_shown: bool) -> None:
    suite = ("suites", "--harness-device", "h200", "--harness-cases", "2", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *plugin.arguments(), *suite, *option]
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = ("printed by the op" in done.stdout, "pid (0, 0, 0) seen by the kernel: [" in done.stdout)
    assert printed == (is_shown, is_shown)
