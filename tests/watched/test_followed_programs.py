"""Programs of `torch.compile` under `harness run`: compiled by Inductor, their launches checked (torch 2.13)."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import Finished, Project

pytestmark = pytest.mark.slow

KERNELS = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_one(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < N, other=0.0) + 1, mask=at < N)


@triton.jit
def past_the_end(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < N, other=0.0) + 1, mask=at < N + 1)


@triton.jit
def reads_past_the_end(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < N + 1, other=0.0) + 1, mask=at < N)


def run(kernel, x):
    y = torch.empty(x.shape[0], device=x.device)
    kernel[(triton.cdiv(x.shape[0], 16),)](x, y, x.shape[0], BLOCK=16)
    return y


class Increment(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return run(add_one, x)

    @staticmethod
    def backward(ctx, dy):
        return run(reads_past_the_end, dy.contiguous())
"""
PROGRAM = """
import torch

program = torch.compile(lambda x: torch.relu(x).sum(-1) + 1)
program(torch.randn(8, 100, device="cuda"))
"""
TESTS = """
import threading

import kernels
import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch._inductor.lowering import register_lowering
from torch.nn.attention.flex_attention import create_block_mask


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()


def program(x):
    assert x.is_cuda and x.device.type == "cuda"
    with torch.cuda.device(x.device.index):
        constant = torch.ones(16, device=x.device) + torch.tensor(1.5, device="cuda")
        return torch.softmax(x.to("cuda") * 2, -1) + constant + x.sum(-1, keepdim=True)


def check(compiled, definition, rows=8):
    x = torch.randn(rows, 16, device="cuda", requires_grad=True)
    got, expected = compiled(x), definition(x)
    torch.testing.assert_close(got, expected)
    cotangent = torch.randn_like(got)
    gradients = [torch.autograd.grad(y, x, cotangent)[0] for y in (got, expected)]
    torch.testing.assert_close(*gradients)


def test_function():
    check(torch.compile(program, fullgraph=True), program)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_mode(mode):
    check(torch.compile(mode=mode)(program), program)


def test_options():
    check(torch.compile(program, options={"triton.cudagraphs": True}), program)


def test_thread():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(check(torch.compile(program), program)))
    thread.start()
    thread.join()
    assert seen == [None]


def test_module():
    module = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.LayerNorm(16)).cuda()
    definition = module.forward
    module.compile(dynamic=True)
    check(module, definition)


def test_graph_break():
    def broken(x):
        y = x * 2
        torch._dynamo.graph_break()
        assert y.is_cuda
        return y + torch.ones(16, device="cuda")

    check(torch.compile(broken), broken)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(broken, fullgraph=True)(torch.ones(16, device="cuda"))


def test_graphs_are_counted():
    counter = CompileCounter()
    compiled = torch.compile(program, backend=counter, dynamic=True)
    for rows in (8, 9, 10):
        check(compiled, program, rows)
    assert counter.frame_count == 1


def test_program_sees_that_it_is_compiled():
    def asking(x):
        return x + (1 if torch.compiler.is_compiling() else 2)

    x = torch.zeros(1, device="cuda")
    assert (torch.compile(asking)(x).item(), asking(x).item()) == (1, 2)


def test_default_device():
    torch.set_default_device("cuda")
    try:
        check(torch.compile(lambda x: x + torch.arange(16), fullgraph=True), lambda x: x + torch.arange(16))
    finally:
        torch.set_default_device(None)


def test_program_that_pushes_a_mode():
    create_block_mask(lambda b, h, q, k: q >= k, None, None, 128, 128, device="cuda", _compile=True)
    assert torch.ones(1, device="cuda").is_cuda


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_other_backend(backend):
    check(torch.compile(lambda x: x.cuda() + 1, backend=backend), lambda x: x + 1)


def test_optimizer():
    parameter = torch.ones(4, device="cuda", requires_grad=True)
    parameter.grad = torch.ones_like(parameter)
    torch.compile(torch.optim.AdamW([parameter], lr=0.1).step)()
    assert parameter.max() < 1


def test_kernel():
    x = torch.ones(20, device="cuda")
    compiled = torch.compile(lambda x: kernels.run(kernels.past_the_end, x * 2), fullgraph=True)
    torch.testing.assert_close(compiled(x), x * 2 + 1)


def test_kernel_of_backward():
    x = torch.ones(20, device="cuda", requires_grad=True)
    torch.compile(lambda x: kernels.Increment.apply(x * 2) * 3)(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 8))


def test_generated_kernel():
    table, index = torch.ones(8, 16, device="cuda"), torch.arange(8, device="cuda")
    torch.compile(lambda table, index: table[index + 1] * 2)(table, index)


def test_inductor_fails():
    for operator in (torch.ops.aten.erfinv.default, torch.ops.aten.cos.default):

        @register_lowering(operator, type_promotion_kind=None)
        def fail(x):
            raise NotImplementedError("left out")

    check(torch.compile(lambda x: torch.erfinv(x.tanh())), lambda x: torch.erfinv(x.tanh()))  # forward
    check(torch.compile(torch.sin), torch.sin)  # backward
"""
SCRIPT = """
import sys

import kernels
import torch

x = torch.ones(20, device="cuda")
compiled = torch.compile(lambda x: kernels.run(kernels.add_one, x * 2), fullgraph=True)
if {called}:
    torch.testing.assert_close(compiled(x), x * 2 + 1)
else:
    kernels.run(kernels.add_one, x)
print("torch._inductor.compile_fx" in sys.modules)
"""
ON = ("run", "--device", "h200", "--json", "report.json")


def project_in(folder: Path) -> Project:
    project = Project(folder)
    project.write("kernels.py", KERNELS)
    return project


def report_in(project: Project) -> Any:
    return json.loads((project.folder / "report.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Finished]:
    """The tests above."""
    project = project_in(tmp_path_factory.mktemp("followed"))
    project.write("test_programs.py", TESTS)
    return project, project.process(*ON, "--", "pytest", "-q", "-p", "no:cacheprovider", limit_s=400)


def finding(watched: tuple[Project, Finished], oracle: str, kernel: str) -> Any:
    found = report_in(watched[0])["findings"]
    (one,) = (one for one in found if (one["oracle"], one["kernel"].rstrip("_0123456789")) == (oracle, kernel))
    return one


def line_of(text: str, start: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if line.strip().startswith(start))


@pytest.mark.nightly
def test_compiled_programs_give_the_results_of_torch(watched: tuple[Project, Finished]) -> None:
    done = watched[1]
    assert "18 passed" in done.out, done.out + done.err
    assert done.err == ""


@pytest.mark.nightly
def test_kernels_that_inductor_generates_are_launched_and_checked(watched: tuple[Project, Finished]) -> None:
    report = report_in(watched[0])
    assert any(name.startswith("triton_per_fused_") for name in report["kernels"])
    assert (report["passed"], report["failed"], report["abstained"]) == (12, 3, 0)
    assert len(report["findings"]) == 4  # the wrong index is both an assertion and a stray access


@pytest.mark.nightly
def test_a_kernel_of_the_user_is_checked_inside_a_program(watched: tuple[Project, Finished]) -> None:
    found = finding(watched, "bounds", "past_the_end")
    assert found["message"].startswith("program 1 stores 1 lane of y outside the storage, at element 20")
    line = line_of(TESTS, "torch.testing.assert_close(compiled(x), x * 2 + 1)")
    assert found["watched"]["called_from"] == {"file": str(watched[0].folder / "test_programs.py"), "line": line}


@pytest.mark.nightly
def test_a_kernel_of_the_user_is_checked_in_the_backward_pass(watched: tuple[Project, Finished]) -> None:
    found = finding(watched, "bounds", "reads_past_the_end")
    line = line_of(TESTS, "torch.compile(lambda x: kernels.Increment")
    assert found["watched"]["called_from"] == {"file": str(watched[0].folder / "test_programs.py"), "line": line}


@pytest.mark.nightly
def test_a_wrong_index_is_found_in_the_generated_kernel(watched: tuple[Project, Finished]) -> None:
    found = finding(watched, "device-assert", "triton_poi_fused_add_index_mul")
    assert found["watched"]["test"] == "test_programs.py::test_generated_kernel"


@pytest.mark.nightly
def test_a_launch_of_a_generated_file_repeats_alone(watched: tuple[Project, Finished]) -> None:
    found = finding(watched, "bounds", "past_the_end")
    assert found["confirmation"] == "confirmed"
    done = watched[0].harness("replay", found["id"])
    assert (done.status, done.err) == (1, "")


@pytest.mark.nightly
def test_a_generated_file_runs_as_a_script(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("program.py", PROGRAM)
    done = project.process("run", "--", "python", "program.py")
    assert (done.status, done.err) == (0, "")
    files = (tmp_path / ".harness" / "watched" / "inductor").rglob("*.py")
    (generated,) = (file for file in files if "AsyncCompile()" in file.read_text(encoding="utf-8"))
    done = project.process("run", "--", "python", str(generated))
    assert done.status == 0, done.err
    assert "resources checked for 1 of 1 compiled kernels" in done.out
    assert done.out.endswith("1 passed, 0 failed, 0 abstained\nno findings\n")


@pytest.mark.nightly
def test_what_runs_uncompiled_is_counted_with_its_reason(watched: tuple[Project, Finished]) -> None:
    project, done = watched
    assert report_in(project)["uncompiled"] == {
        "its backend is aot_eager": 1,
        "its backend is eager": 1,
        "its backend is CompileCounter": 1,
        "Inductor: LoweringException: NotImplementedError: left out": 2,
    }
    assert "5 programs of torch.compile ran uncompiled:\n" in done.out


@pytest.mark.nightly
def test_without_a_compiler_a_program_runs_uncompiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    project = project_in(tmp_path)
    project.write("script.py", SCRIPT.format(called=True))
    done = project.process(*ON, "--", "python", "script.py")
    assert (done.status, done.err, done.out.splitlines()[0]) == (0, "", "False"), done.out + done.err
    ((reason, count),) = report_in(project)["uncompiled"].items()
    assert reason.startswith("a compiled program without a C++ compiler (no-such-compiler;")
    assert (count, report_in(project)["kernels"]) == (1, ["add_one"])


@pytest.mark.nightly
def test_a_program_that_is_switched_off_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    project = project_in(tmp_path)
    project.write("script.py", SCRIPT.format(called=True))
    done = project.process(*ON, "--", "python", "script.py")
    assert (done.status, report_in(project)["uncompiled"]) == (0, {"torch.compile is switched off": 1}), done.err


def test_a_process_that_compiles_nothing_does_not_load_inductor(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    project.write("script.py", SCRIPT.format(called=False))
    done = project.process(*ON, "--", "python", "script.py")
    assert (done.status, done.err, done.out.splitlines()[0]) == (0, "", "False"), done.out + done.err
