"""`harness run`: commands whose processes are the GPU, run as a person runs them."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.command_line import Finished, Project
from tests.workers.setting import MARK, processes_marked

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


def local_kernel():
    @triton.jit
    def inner(y):
        tl.store(y + tl.arange(0, 2), 1.0)

    return inner


@triton.jit
def undefined(x, y, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y, tl.sum(tl.load(x + at, mask=at < N)))


def run(kernel, x, size=None):
    y = torch.empty(size or x.shape[0], device=x.device)
    kernel[(triton.cdiv(x.shape[0], 16),)](x, y, x.shape[0], BLOCK=16)
    return y


class Increment(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return run(add_one, x)

    @staticmethod
    def backward(ctx, dy):
        return run(past_the_end, dy)
"""
TESTS = """
import multiprocessing
import os
import threading

import kernels
import pytest
import torch

GPU = torch.cuda.get_device_name()


def launch_in_child():
    kernels.run(kernels.past_the_end, torch.ones(20, device="cuda"))


def test_clean():
    assert GPU == "NVIDIA H200"
    x = torch.arange(20.0, device="cuda")
    torch.testing.assert_close(kernels.run(kernels.add_one, x), x + 1)


def test_no_kernel():
    assert torch.ones(2, device="cuda").is_cuda


@pytest.mark.parametrize("size", [5, 40])
def test_past_the_end(size):
    kernels.run(kernels.past_the_end, torch.ones(size, device="cuda"))


def test_undefined_lanes_keep_their_values():
    assert kernels.run(kernels.undefined, torch.ones(10, device="cuda"), 1).item() == 10


def test_never_stored():
    kernels.run(kernels.add_one, torch.empty(16, device="cuda"))


def test_kernel_inside_a_function():
    kernels.local_kernel()[(1,)](torch.ones(1, device="cuda"))


def test_backward():
    x = torch.ones(20, device="cuda", requires_grad=True)
    kernels.Increment.apply(x).sum().backward()
    assert x.grad is not None


def test_thread():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.ones(1, device="cuda").is_cuda))
    thread.start()
    thread.join()
    assert seen == [True]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child(method):
    child = multiprocessing.get_context(method).Process(target=launch_in_child)
    child.start()
    child.join()
    assert child.exitcode == 0


def test_that_fails():
    assert kernels.run(kernels.add_one, torch.ones(1, device="cuda")).item() == 3
"""
SCRIPT = """
import kernels
import torch

kernels.run(kernels.{kernel}, torch.ones(20, device="cuda"))
print("the script's own output")
raise SystemExit({status})
"""
STRICT = """
[tool.pytest.ini_options]
pythonpath = ["."]
filterwarnings = ["error"]

[tool.kernel-harness]
device = "h200,rtx-5090"
"""
ON = ("run", "--device", "h200", "--json", "report.json")


class Watched:
    """A command that was run, and its report."""

    def __init__(self, project: Project, done: Finished) -> None:
        self.project = project
        self.done = done
        self.report: dict[str, Any] = json.loads((project.folder / "report.json").read_text(encoding="utf-8"))

    def finding(self, oracle: str, kernel: str) -> dict[str, Any]:
        (found,) = (one for one in self.report["findings"] if (one["oracle"], one["kernel"]) == (oracle, kernel))
        return found

    def tests_of(self, finding: dict[str, Any]) -> set[str]:
        stored = (self.project.folder / ".harness" / "findings" / finding["id"]).glob("cases-*.jsonl")
        lines = (line for file in stored for line in file.read_text(encoding="utf-8").splitlines())
        return {json.loads(line)["op"].rpartition("::")[2] for line in lines}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """The tests above, run by two processes of pytest-xdist."""
    project = Project(tmp_path_factory.mktemp("watched"))
    project.write("kernels.py", KERNELS)
    project.write("test_kernels.py", TESTS)
    done = project.process(*ON, "--", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider")
    return Watched(project, done)


def test_the_tests_of_a_command_have_their_own_results(watched: Watched) -> None:
    assert "1 failed, 11 passed" in watched.done.out, watched.done.out + watched.done.err
    assert "FAILED test_kernels.py::test_that_fails" in watched.done.out
    assert (watched.done.status, watched.done.err) == (1, "")


def test_a_bug_is_one_finding_whatever_process_shows_it(watched: Watched) -> None:
    finding = watched.finding("bounds", "past_the_end")
    shown = {"test_past_the_end[5]", "test_past_the_end[40]", "test_backward", "test_child[fork]", "test_child[spawn]"}
    assert watched.tests_of(finding) == shown
    assert finding["message"].startswith("program 0 stores 1 lane of y outside the storage, at element 5")


def test_a_finding_names_the_smallest_test_and_a_line_of_the_project(watched: Watched) -> None:
    seen = watched.finding("bounds", "past_the_end")["watched"]
    assert seen["test"] == "test_kernels.py::test_past_the_end[5]"
    line = next(number for number, text in enumerate(KERNELS.splitlines(), 1) if text.startswith("    kernel["))
    assert seen["called_from"] == {"file": str(watched.project.folder / "kernels.py"), "line": line}
    assert seen["command"][-2:] == ["pytest", "test_kernels.py::test_past_the_end[5]"]


@pytest.mark.nightly
def test_a_library_that_holds_its_tests_is_called_from_them(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("kernels/__init__.py", KERNELS)
    project.write("tests/test_kernels.py", TESTS)
    project.write("pyproject.toml", STRICT)
    tests = ("pytest", "-q", "-k", "test_past_the_end or test_clean", "tests")
    done = project.process("run", "--with", ".", "--json", "report.json", "--", *tests)
    assert ("3 passed" in done.out, done.err, done.status) == (True, "", 1), done.out
    watched = Watched(project, done)
    assert watched.report["devices"] == ["h200 (132 SMs, sm_90)"]
    line = next(number for number, text in enumerate(TESTS.splitlines(), 1) if "(size, device" in text)
    assert watched.finding("bounds", "past_the_end")["watched"]["called_from"] == {
        "file": str(tmp_path / "tests" / "test_kernels.py"),
        "line": line,
    }


def test_lanes_are_refilled_by_a_second_execution(watched: Watched) -> None:
    finding = watched.finding("undefined-lanes", "undefined")
    assert watched.tests_of(finding) == {"test_undefined_lanes_keep_their_values"}
    assert finding["confirmation"] == "confirmed"


def test_memory_that_was_never_stored_is_seen(watched: Watched) -> None:
    finding = watched.finding("uninitialised-read", "add_one")
    assert watched.tests_of(finding) == {"test_never_stored"}


def test_tests_without_a_launch_are_not_counted(watched: Watched) -> None:
    report = watched.report
    assert (report["cases"], report["passed"], report["failed"], report["abstained"]) == (10, 2, 8, 0)
    assert report["kernels"] == ["add_one", "inner", "past_the_end", "undefined"]
    assert len(report["findings"]) == 4


def test_the_launch_of_a_finding_repeats_alone(watched: Watched) -> None:
    finding = watched.finding("bounds", "past_the_end")
    assert finding["confirmation"] == "confirmed"
    done = watched.project.harness("replay", finding["id"])
    assert (done.status, done.err) == (1, "")
    assert done.out.endswith(f"{finding['id']} fails again\n")
    kernels = watched.project.folder / "kernels.py"
    before = kernels.read_text(encoding="utf-8")
    kernels.write_text(before.replace("at < N + 1", "at < N"), encoding="utf-8")
    try:
        assert watched.project.harness("replay", finding["id"]).status == 0
    finally:
        kernels.write_text(before, encoding="utf-8")


def test_a_region_of_a_launch_says_how_to_get_sizes(watched: Watched) -> None:
    finding = watched.finding("bounds", "past_the_end")
    done = watched.project.harness("region", finding["id"])
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert f"draft a suite by harness init --from {finding['id']}" in done.err


def test_a_launch_that_was_not_recorded_says_how_to_repeat_its_test(watched: Watched) -> None:
    finding = watched.finding("bounds", "inner")
    repeat = "harness run --device h200 -- pytest test_kernels.py::test_kernel_inside_a_function"
    assert (finding["confirmation"], finding["replay"]) == ("not tried", repeat)
    done = watched.project.harness("replay", finding["id"])
    assert (done.status, done.out) == (2, "")
    assert done.err == f"harness: {finding['id']} has no recorded launch: repeat its test by {repeat}\n"


def test_the_option_of_pytest_runs_it_again_under_the_harness(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("kernels.py", KERNELS)
    project.write("test_kernels.py", TESTS)
    options = ("-q", "-p", "no:cacheprovider", "-k", "test_clean or test_past_the_end", "--harness-run")
    done = project.pytest(*options, "--harness-device=h200", "--harness-json", "report.json")
    assert (done.status, done.err) == (1, "")
    assert "3 passed" in done.out
    assert Watched(project, done).finding("bounds", "past_the_end")["watched"]["command"][-4:-1] == [
        sys.executable,
        "-m",
        "pytest",
    ]


@pytest.mark.parametrize(
    ("kernel", "status", "expected"),
    [("add_one", 0, 0), ("add_one", 5, 5), pytest.param("past_the_end", 0, 1, marks=pytest.mark.both)],
)
def test_a_script_ends_with_its_own_status_or_1(tmp_path: Path, kernel: str, status: int, expected: int) -> None:
    project = Project(tmp_path)
    project.write("kernels.py", KERNELS)
    project.write("script.py", SCRIPT.format(kernel=kernel, status=status))
    done = project.process(*ON, "--", "python", "script.py")
    assert done.status == expected, done.err
    assert done.out.startswith("the script's own output\n")
    assert ("no findings" in done.out) == (kernel == "add_one")


PRINTING = """
import torch
import triton
import triton.language as tl


@triton.jit
def printing(x, y, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.device_print("seen", tl.num_programs(0))
    tl.store(y, tl.sum(tl.load(x + at, mask=at < N)))


printing[(1,)](torch.ones(10, device="cuda"), torch.empty(1, device="cuda"), 10, BLOCK=16)
"""


def test_a_kernel_prints_once_though_it_is_executed_twice(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("script.py", PRINTING)
    done = project.process(*ON, "--", "python", "script.py")
    finding = Watched(project, done).finding("undefined-lanes", "printing")
    assert finding["watched"]["test"] == "script.py"  # not this test, in which the command starts
    assert done.out.count("pid (0, 0, 0) seen: 1") == 1, done.out


OWN_CLASS = """
import gc
import weakref

import torch
import triton
import triton.language as tl


class Own:
    def __init__(self, base):
        self.base, self.dtype, self.shape = base, base.dtype, base.shape

    def data_ptr(self):
        return self.base.data_ptr()

    def stride(self):
        return self.base.stride()

    def element_size(self):
        return self.base.element_size()

    def untyped_storage(self):
        return self.base.untyped_storage()


@triton.jit
def count(x, total, N, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(total, tl.load(total) + tl.sum(tl.load(x + at, mask=at < N)))


def counted(total):
    x = torch.ones(10, device="cuda")
    count[(1,)](x, Own(total), 10, BLOCK=16)
    return weakref.ref(x)


gc.disable()
total = torch.zeros(1, device="cuda")
x = counted(total)
print("total", total.item())
print("freed", x() is None)
"""


def test_memory_behind_an_object_of_a_library_is_put_back(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("script.py", OWN_CLASS)
    done = project.process(*ON, "--", "python", "script.py")
    assert done.out.startswith("total 10.0\nfreed True\n"), done.out + done.err


DESCRIPTOR = """
import torch
import triton
import triton.language as tl


@triton.jit
def unaligned_rows(x, out, M, K, BLOCK: tl.constexpr):
    rows = tl.make_tensor_descriptor(x, shape=[M, K], strides=[K, 1], block_shape=[BLOCK, BLOCK])
    tl.store(out + tl.arange(0, BLOCK), tl.sum(rows.load([0, 0]), 1))


triton.set_allocator(lambda size, align, stream: torch.empty(size, device="cuda", dtype=torch.int8))
unaligned_rows[(1,)](torch.ones(16, 17, device="cuda"), torch.empty(16, device="cuda"), 16, 17, BLOCK=16)
"""


@pytest.mark.nightly
def test_a_launch_with_scratch_memory_repeats_alone(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("script.py", DESCRIPTOR)
    finding = Watched(project, project.process(*ON, "--", "python", "script.py")).finding(
        "descriptor-alignment", "unaligned_rows"
    )
    assert finding["confirmed"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "name the command after two dashes: harness run -- pytest tests (see harness run --help)"),
        (("--", "no-such-command"), "there is no command 'no-such-command'"),
        (("--device", "h200,b200", "--", "true"), "--device names 2 GPUs: a command runs on one"),
        (("--oracle", "float64-values", "--", "true"), "float64-values needs a suite: harness run asks completes, "),
        (("--devise", "h200", "--", "true"), "unknown option '--devise': did you mean --device"),
        (("--engine", "cud", "--", "true"), "unknown engine 'cud': did you mean cuda or cuda,ptx?"),
        (("--engine", "cuda,virtual", "--", "true"), "--engine cuda,virtual: a command runs on virtual or ptx or cuda"),
        (("--sanitizer", "memcheck", "--", "true"), "--sanitizer watches kernels on a real GPU: add --engine cuda"),
        (("--engine", "cuda", "--sanitizer", "gsan", "--", "true"), "--sanitizer gsan: harness fuzz takes Triton's "),
    ],
)
def test_a_wrong_command_line_is_an_error_of_one_line(tmp_path: Path, words: tuple[str, ...], line: str) -> None:
    done = Project(tmp_path).harness("run", *words)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert done.err.startswith(f"harness: {line}")


def test_a_command_without_a_launch_was_not_checked(tmp_path: Path) -> None:
    done = Project(tmp_path).process("run", "--", "python", "-c", "print('hello')")
    assert (done.status, done.err) == (3, "")
    assert done.out.startswith("hello\n")
    assert done.out.endswith("no launch was seen: this says nothing about the kernels\n")


def test_the_startup_file_of_the_environment_still_runs(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("own/sitecustomize.py", "print('own startup file')\n")
    project.write("start.sh", f'PYTHONPATH="$PYTHONPATH:own" exec {sys.executable} -c pass')
    assert project.process("run", "--", "sh", "start.sh").out.startswith("own startup file\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_command_and_what_it_showed_is_kept(tmp_path: Path, number: signal.Signals) -> None:
    project = Project(tmp_path)
    project.write("kernels.py", KERNELS)
    waiting = SCRIPT.format(kernel="past_the_end", status=0).replace(
        "raise SystemExit(0)", "import sys, time\nsys.stdout.flush()\ntime.sleep(600)"
    )
    project.write("script.py", waiting)
    process = project.start("run", "--", "python", "script.py")
    assert process.stdout is not None
    assert process.stdout.readline() == "the script's own output\n"
    process.send_signal(number)
    if number == signal.SIGINT:  # a terminal sends it to the command too; here only the harness gets it
        process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "past_the_end" in out
    assert "interrupted after 1 launch of 1 kernel in 1 test" in out


STUBBORN = """
trap '' TERM HUP
setsid sleep 600 &
echo started
kill -STOP $$
"""


@pytest.fixture
def stubborn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose command ends by SIGKILL only: it ignores SIGTERM, stops itself, and leaves its group."""
    monkeypatch.setenv(MARK, str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    project = Project(tmp_path)
    project.write("stubborn.sh", STUBBORN)
    return project


def survivors(project: Project) -> tuple[list[psutil.Process], list[Path]]:
    """The processes and temporary folders of a project that are there after five seconds."""
    marked = [process for process in processes_marked(str(project.folder)) if process.pid != os.getpid()]
    _, alive = psutil.wait_procs(marked, timeout=5)
    return alive, list((project.folder / "temporary").iterdir())


def test_a_killed_run_takes_its_command_and_its_folder_along(stubborn: Project) -> None:
    process = stubborn.start("run", "--", "sh", "stubborn.sh")
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.kill()
    process.communicate(timeout=5)
    assert survivors(stubborn) == ([], [])


def test_a_stopped_command_ends_with_its_time(stubborn: Project) -> None:
    process = stubborn.start("run", "--minutes", "0.5s", "--", "sh", "stubborn.sh")
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out.splitlines()[0], "interrupted after" in out) == (130, "started", True), out + err
    assert survivors(stubborn) == ([], [])
