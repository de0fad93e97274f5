"""What could not be checked is named, and never ends with status 0."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import ON, Project
from tests.cli.fake_engine import suite_of

pytestmark = pytest.mark.slow

TORCH = """
from harness.suite import op, tensor, tokens, width


@op(dims={"T": tokens(64), "D": width(16)}, inputs={"x": tensor("T", "D")})
def doubled(x):
    return x * 2


@op(dims={"T": tokens(64), "D": width(16)}, inputs={"x": tensor("T", "D")}, launches=False)
def doubled_without_kernels(x):
    return x * 2


doubled.reference(lambda x: x * 2)
doubled_without_kernels.reference(lambda x: x * 2)
"""


SPLIT = """
import torch
import triton
import triton.language as tl


@triton.jit
def split_sum_kernel(x, y, T, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y, tl.sum(tl.load(x + o, mask=o < T, other=0.0)))


def split_sum(x, start):
    y = start(1, dtype=torch.float32)
    split_sum_kernel[(triton.cdiv(x.shape[0], 16),)](x, y, x.shape[0], BLOCK=16)
    return y
"""
WITHOUT_DEFINITIONS = """
from harness.suite import DType, beside, op, tensor, tokens

INPUTS = {"x": tensor("T", grad=False, contiguous=True)}
DECLARED = {"dims": {"T": tokens(64, grows=False)}, "inputs": INPUTS, "dtypes": (DType.FP32,)}


@op(**DECLARED)
def started_empty(x):
    import torch

    return beside(__file__, "kernels/split.py").split_sum(x, torch.empty)


@op(**DECLARED)
def drafted(x):
    import torch

    return beside(__file__, "kernels/split.py").split_sum(x, torch.zeros)


@drafted.reference
def drafted_definition(x):
    raise NotImplementedError("the definition of drafted in differentiable torch")


@op(**DECLARED, waives=("float64-values",))
def smoke_only(x):
    import torch

    return beside(__file__, "kernels/split.py").split_sum(x, torch.zeros)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def report(project: Project) -> dict[str, Any]:
    return json.loads((project.folder / "r.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("other", "status", "end"),
    [("faultless", 3, "no findings"), ("overlapping", 1, "1 finding: 1 warning")],
)
def test_one_unchecked_op_is_no_success_whatever_the_others_did(
    project: Project, other: str, status: int, end: str
) -> None:
    project.write("suites/two.py", suite_of(other, "unknown"))
    done = project.harness("fuzz", "suites", "--cases", "30", *ON, "--json", "r.json", "--oracle", "write-overlap")
    assert (done.status, done.out.splitlines()[-1]) == (status, f"{end}; 1 of 2 ops could not be checked")
    assert "not checked: unknown (" in done.out
    (unchecked,) = report(project)["unchecked"]
    assert (unchecked["op"], unchecked["device"]) == ("suites/two.py:unknown", "")
    assert "tt.histogram" in unchecked["reason"]


def test_an_op_that_one_device_cannot_check_is_named(project: Project) -> None:
    project.write("suites/one.py", suite_of("only_on_rtx"))
    done = project.harness("fuzz", "suites", "--cases", "20", *ON, "--device", "rtx-pro-6000,a100", "--json", "r.json")
    assert (done.status, done.out.splitlines()[-1]) == (0, "no findings")
    assert "not checked on every device: only_on_rtx on a100 (" in done.out
    assert [row["device"] for row in report(project)["unchecked"]] == ["a100"]


def test_ops_in_torch_are_checked_only_if_they_declare_it(project: Project) -> None:
    project.write("suites/torch_ops.py", TORCH)
    done = project.harness("fuzz", "suites", "--cases", "8", "--device", "h200", "--seed", "1", "--json", "r.json")
    assert (done.status, done.out.splitlines()[-1]) == (3, "no findings; 1 of 2 ops could not be checked")
    assert "  no kernel was launched\n" in done.out
    rows = {row["op"].rpartition(":")[2]: row for row in report(project)["op_checks"]}
    assert rows["doubled"]["abstained"] > 0
    assert rows["doubled_without_kernels"]["passed"] > 0


def test_the_counts_of_an_interrupted_search_add_up(project: Project) -> None:
    project.write("suites/norm.py", suite_of("slow", "unknown"))
    process = project.start("fuzz", "suites", "--minutes", "5", "--json", "r.json", *ON)
    assert process.stderr
    while not process.stderr.readline().startswith("seen: warning, write-overlap"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    whole = report(project)
    assert (process.returncode, whole["interrupted"], "interrupted after" in out) == (1, True, True)
    assert whole["cases"] == whole["passed"] + whole["failed"] + whole["abstained"] > 0
    rows = whole["op_checks"]
    for outcome in ("passed", "failed", "abstained"):
        assert whole[outcome] == sum(row[outcome] for row in rows)
    for row in rows:
        of_row = [one for one in whole["verdicts"] if one["op"] == row["op"]]
        cases = row["passed"] + row["failed"] + row["abstained"]
        for oracle in {one["oracle"] for one in of_row}:
            assert sum(one["cases"] for one in of_row if one["oracle"] == oracle) == cases


@pytest.mark.parametrize(
    ("op", "status", "lines"),
    [
        (
            "started_empty",
            1,
            (
                "ERROR  uninitialised-read  split_sum_kernel",
                "same cause     error, finite-results: split_sum_kernel y",
                "1 finding: 1 error",
            ),
        ),
        (
            "drafted",
            3,
            (
                "not checked: drafted (its results, for it has no definition: write the function under",
                "no findings; 1 of 1 op could not be checked",
            ),
        ),
        ("smoke_only", 0, ("finite-results 10", "no findings")),
    ],
)
def test_an_op_without_a_definition_is_green_only_if_it_says_so(
    project: Project, op: str, status: int, lines: tuple[str, ...]
) -> None:
    project.write("suites/kernels/split.py", SPLIT)
    project.write("suites/split.py", WITHOUT_DEFINITIONS)
    searched = ("fuzz", "suites/split.py", "--device", "h200", "--cases", "10", "--seed", "1", "--fail-on", "error")
    done = project.harness(*searched, "--op", op)
    assert done.status == status, done.out + done.err
    assert [line for line in lines if line not in done.out] == []


@pytest.mark.nightly
def test_a_draft_fails_its_test_in_pytest(project: Project) -> None:
    project.write("suites/kernels/split.py", SPLIT)
    project.write("suites/split.py", WITHOUT_DEFINITIONS)
    options = ("suites", "--harness-device", "h200", "--harness-cases", "3", "-p", "no:cacheprovider")
    done = project.pytest(*options)
    assert (done.status, "1 passed" in done.out, "2 failed" in done.out) == (1, True, True), done.out
    assert "nothing checked: drafted on h200 (its results, for it has no definition: write the" in done.out
