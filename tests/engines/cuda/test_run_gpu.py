"""`harness run --engine cuda`: a command whose launches are checked on hardware, with and without compute-sanitizer."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.engines.cuda.gpus.inventory import RealGpu
from harness.engines.cuda.sanitizers.sanitizer_command import find
from harness.errors import MissingPart
from harness.settings import Settings
from tests.cli.command_line import Finished, Project
from tests.watched.test_run import KERNELS

pytestmark = pytest.mark.gpu

TESTS = """
import kernels
import pytest
import torch

ONE, OTHER = torch.ones(1, device="cuda"), torch.ones(1, device="cuda")


def test_clean():
    x = torch.arange(20.0, device="cuda")
    torch.testing.assert_close(kernels.run(kernels.add_one, x), x + 1)


@pytest.mark.parametrize("size", [40, 5])
def test_past_the_end(size):
    kernels.run(kernels.past_the_end, torch.ones(size, device="cuda"))


def test_backward():
    x = torch.ones(20, device="cuda", requires_grad=True)
    kernels.Increment.apply(x).sum().backward()
    assert x.grad is not None


def test_graph():
    x, y = torch.arange(16.0, device="cuda"), torch.zeros(16, device="cuda")
    kernels.add_one[(1,)](x, y, 16, BLOCK=16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernels.add_one[(1,)](x, y, 16, BLOCK=16)
    y.zero_()
    graph.replay()
    torch.testing.assert_close(y, x + 1)


def test_graph_past_the_end():
    x, y, wide = (torch.ones(size, device="cuda") for size in (5, 5, 16))
    kernels.add_one[(1,)](x, x, 5, BLOCK=16)
    kernels.past_the_end_in_graph[(1,)](x, wide, 5, BLOCK=16)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernels.add_one[(1,)](x, x, 5, BLOCK=16)
        kernels.past_the_end_in_graph[(1,)](x, y, 5, BLOCK=16)
    graph.replay()


def test_graph_with_memory_of_its_own():
    x, graph = torch.ones(5, device="cuda"), torch.cuda.CUDAGraph()
    kernels.past_the_end_of_capture[(1,)](x, torch.ones(16, device="cuda"), 5, BLOCK=16)
    with torch.cuda.graph(graph):
        y = torch.empty(5, device="cuda")
        kernels.past_the_end_of_capture[(1,)](x, y, 5, BLOCK=16)
        z = torch.zeros(5, device="cuda") + y
    for value in (2.0, 5.0):
        x.fill_(value)
        graph.replay()
        assert z.tolist() == [value + 1] * 5


def test_compiled():
    def program(x):
        return torch.softmax(x * 2, -1)

    x = torch.randn(8, 32, device="cuda")
    torch.testing.assert_close(torch.compile(program, fullgraph=True)(x), program(x))


def test_default_device():
    with torch.device("cuda"):
        assert torch.empty(3).is_cuda


def test_that_fails():
    assert kernels.run(kernels.add_one, torch.ones(1, device="cuda")).item() == 3


def test_zz_far():
    y = torch.empty(16, device="cuda")
    kernels.far[(1,)](y, 1 << 40, BLOCK=16)


def test_zzz_after():
    kernels.add_one[(1,)](ONE, OTHER, 1, BLOCK=16)
"""
FAR = """

@triton.jit
def past_the_end_in_graph(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < N, other=0.0) + 1, mask=at < N + 1)


@triton.jit
def past_the_end_of_capture(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < N, other=0.0) + 1, mask=at < N + 1)


@triton.jit
def far(y, offset, BLOCK: tl.constexpr):
    tl.store(y + offset + tl.arange(0, BLOCK), 1.0)
"""
ON = ("run", "--engine", "cuda", "--json", "report.json")
LIMIT_S = 300


class Ran:
    """A command that ran on hardware, and its report."""

    def __init__(self, project: Project, *options: str, tests: str = "") -> None:
        project.write("kernels.py", KERNELS + FAR)
        project.write("test_kernels.py", TESTS)
        words = ("--", "pytest", "-q", "-p", "no:cacheprovider", *(["-k", tests] if tests else []))
        self.done: Finished = project.process(*ON, *options, *words, limit_s=LIMIT_S)
        text = (project.folder / "report.json").read_text(encoding="utf-8")
        self.report: dict[str, Any] = json.loads(text)

    def findings(self, oracle: str) -> list[dict[str, Any]]:
        return [one for one in self.report["findings"] if one["oracle"] == oracle]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, gpu: RealGpu) -> Ran:
    del gpu
    return Ran(Project(tmp_path_factory.mktemp("ran")))


def test_tests_on_hardware_have_their_own_results(ran: Ran) -> None:
    assert "3 failed, 9 passed" in ran.done.out, ran.done.out + ran.done.err
    assert "FAILED test_kernels.py::test_that_fails" in ran.done.out
    assert ran.done.status == 1


def test_a_store_into_a_redzone_is_one_finding(ran: Ran) -> None:
    (finding,) = (one for one in ran.findings("bounds") if one["kernel"] == "past_the_end")
    assert finding["message"] == "past_the_end stores 1 element outside the storage of y, the first at element 5"
    assert finding["watched"]["test"] == "test_kernels.py::test_past_the_end[5]"
    assert finding["confirmation"] == "confirmed"
    assert finding["replay"].endswith("--engine cuda")


def test_a_fault_names_its_kernel_and_leaves_the_rest_unchecked(ran: Ran) -> None:
    (finding,) = ran.findings("completes")
    assert finding["kernel"] == "far"
    assert "illegal memory access" in finding["message"]
    assert any("lost the CUDA context" in reason for reason in ran.report["abstain_reasons"])


def test_launches_of_a_captured_graph_are_checked_at_its_replay(ran: Ran) -> None:
    assert not any("CUDA graph" in reason for reason in ran.report["abstain_reasons"])
    (finding,) = (one for one in ran.findings("bounds") if one["kernel"] == "past_the_end_in_graph")
    message = "past_the_end_in_graph stores 1 element outside the storage of y, the first at element 5"
    assert finding["message"] == message
    watched, lines = finding["watched"], TESTS.splitlines()
    assert watched["test"] == "test_kernels.py::test_graph_past_the_end"
    assert "past_the_end_in_graph" in lines[watched["captured_at"]["line"] - 1]
    assert "graph.replay()" in lines[watched["called_from"]["line"] - 1]


def test_memory_of_a_capture_has_redzones(ran: Ran) -> None:
    (finding,) = (one for one in ran.findings("bounds") if one["kernel"] == "past_the_end_of_capture")
    assert finding["message"].endswith("stores 1 element outside the storage of y, the first at element 5")
    assert finding["watched"]["test"] == "test_kernels.py::test_graph_with_memory_of_its_own"


def test_kernels_of_compiled_programs_are_checked(ran: Ran) -> None:
    assert any(kernel.startswith("triton_") for kernel in ran.report["kernels"])


def test_host_code_sees_the_named_device(tmp_path: Path, gpu: RealGpu) -> None:
    project = Project(tmp_path)
    project.write("script.py", "import torch\nprint(torch.cuda.get_device_properties(0).multi_processor_count)\n")
    done = project.process(*ON, "--device", "b200", "--", "python", "script.py", limit_s=LIMIT_S)
    assert done.out.startswith("148\n"), done.out + done.err
    assert f"on {gpu.name}: 148 SMs are emulated on a GPU of {gpu.sm_count}" in done.out


@pytest.fixture(scope="module")
def has_sanitizer() -> None:
    try:
        find(Settings())
    except MissingPart as missing:
        pytest.skip(str(missing))


@pytest.mark.usefixtures("gpu", "has_sanitizer")
def test_memcheck_reports_a_kernel_with_its_test(tmp_path: Path) -> None:
    ran = Ran(Project(tmp_path), "--sanitizer", "memcheck", tests="test_clean or test_past_the_end")
    findings = ran.findings("compute-sanitizer")
    assert [one["kernel"] for one in findings] == ["past_the_end"], ran.done.out
    finding = findings[0]
    assert finding["watched"]["test"].startswith("test_kernels.py::test_past_the_end")
    assert (finding["confirmation"], finding["replay"].partition("--")[2]) == (
        "confirmed",
        "engine cuda --sanitizer memcheck",
    )


@pytest.mark.usefixtures("gpu", "has_sanitizer")
def test_memcheck_passes_where_nothing_is_wrong(tmp_path: Path) -> None:
    ran = Ran(Project(tmp_path), "--sanitizer", "memcheck", tests="test_clean")
    assert ran.done.status == 0, ran.done.out + ran.done.err
    (verdict,) = (one for one in ran.report["verdicts"] if one["oracle"] == "compute-sanitizer")
    assert verdict["outcome"] == "pass"


@pytest.mark.usefixtures("gpu", "has_sanitizer")
def test_initcheck_reports_memory_that_nothing_wrote(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("kernels.py", KERNELS)
    project.write("script.py", "import kernels, torch\nkernels.run(kernels.add_one, torch.empty(64, device='cuda'))\n")
    done = project.process(*ON, "--sanitizer", "initcheck", "--", "python", "script.py", limit_s=LIMIT_S)
    report = json.loads((project.folder / "report.json").read_text(encoding="utf-8"))
    assert [one["kernel"] for one in report["findings"]] == ["add_one"], done.out + done.err
