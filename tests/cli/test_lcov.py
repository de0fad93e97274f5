"""A search tells which lines of kernels it executed, and keeps promising cases."""

import json
from pathlib import Path

import pytest

from tests.cli.command_line import Project

KERNELS = """
import triton
import triton.language as tl


@triton.jit
def doubled(value):
    return value * 2  # doubled


@triton.jit
def double_kernel(x, y, N, B: tl.constexpr):
    at = tl.arange(0, B)
    value = tl.load(x + at, mask=at < N, other=0.0)
    if N > 4:
        value = tl.sqrt(value)  # never
    tl.store(y + at, doubled(value), mask=at < N)  # store


@triton.jit
def forgotten_kernel(x):
    tl.store(x, tl.load(x) + 1)  # forgotten
"""
SUITE = """
from harness.suite import Dim, beside, op, tensor


@op(dims={"N": Dim(low=1, high=4)}, inputs={"x": tensor("N", grad=False, contiguous=True)})
def double(x):
    import torch

    y = torch.empty_like(x)
    beside(__file__, "kernels.py").double_kernel[(1,)](x, y, x.numel(), 4)
    return y


@double.reference
def _(x):
    return 2 * x
"""
NUMBERS = {
    comment: number
    for number, line in enumerate(KERNELS.splitlines(), 1)
    if (comment := line.partition("  # ")[2])
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.write("suites/kernels.py", KERNELS)
    project.write("suites/doubling.py", SUITE)
    return project


@pytest.mark.slow
def test_executed_lines_are_written_and_the_others_listed(project: Project) -> None:
    given = ("--cases", "3", "--device", "h200", "--sm", "4", "--seed", "1", "--oracle", "bounds")
    done = project.harness("fuzz", "suites/doubling.py", *given, "--json", "r.json", "--lcov", "r.info")
    assert done.status == 0, done.out + done.err
    assert f"  double_kernel        4 of    5  suites/kernels.py:{NUMBERS['never']}\n" in done.out
    assert f"  forgotten_kernel     0 of    1  all: suites/kernels.py:{NUMBERS['forgotten'] - 1}\n" in done.out
    assert "executed 5 of 7 lines of kernels (71%), in 2 of 3 functions\n" in done.out
    assert done.out.splitlines()[-1] == "no findings"

    tracefile = (project.folder / "r.info").read_text(encoding="utf-8").splitlines()
    counts = dict(line[3:].split(",") for line in tracefile if line.startswith("DA:"))
    assert {comment: counts[str(number)] for comment, number in NUMBERS.items()} == {
        "doubled": "3",
        "never": "0",
        "store": "3",
        "forgotten": "0",
    }
    assert tracefile[1] == "SF:suites/kernels.py"

    report = project.harness("report", "r.json", "--lcov", "-")
    assert report.out.splitlines() == tracefile
    (promising, *_) = json.loads((project.folder / "r.json").read_text(encoding="utf-8"))["promising"]
    assert (promising["device"], promising["reason"]) == ("h200", "new line")


def test_a_survey_has_no_executed_lines(project: Project) -> None:
    done = project.harness("fuzz", "suites", "--survey", "coverage", "--lcov", "r.info")
    assert (done.status, "--lcov goes with a search" in done.err) == (2, True)


def test_a_tracefile_needs_a_folder(project: Project) -> None:
    done = project.harness("fuzz", "suites", "--lcov", "no/such/r.info")
    assert (done.status, "--lcov no/such/r.info: there is no folder no/such" in done.err) == (2, True)
