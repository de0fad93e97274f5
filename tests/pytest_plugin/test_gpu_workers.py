"""`pytest -n auto` on hardware GPUs: one worker for each.  The driver is simulated."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.settings import LEASES_VARIABLE
from tests import plugin
from tests.engines.cuda import simulated_driver

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("xdist") is None, reason="pytest-xdist is not installed"),
]

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import os
import signal
from pathlib import Path

import pytest
from harness.pytest_plugin.gpu_workers import gpu_of

@pytest.fixture(autouse=True)
def seen(request, worker_id):
    with Path("seen").open("a") as seen:
        seen.write(f"{worker_id} {gpu_of(request.config).uuid[:6]}\\n")

def test_one_worker_dies_when_both_have_a_gpu(worker_id):
    with open("meeting", "r" if worker_id == "gw0" else "w"):
        if worker_id == "gw0":
            os.kill(os.getpid(), signal.SIGKILL)

def test_its_work_goes_on_while_the_other_keeps_its_gpu(worker_id):
    with open("replaced", "r" if worker_id == "gw1" else "w"):
        pass
"""
TORCH = {"__init__.py": "raise AssertionError('no test imports torch')", "version.py": "cuda: str | None = '13.0'\n"}


IN_ORDER = """
from pathlib import Path

import pytest
from harness.pytest_plugin.gpu_workers import next_tests

@pytest.mark.parametrize("number", range(7))
def test_one(request, worker_id, number):
    following = [request.session.items[index].name[9:-1] for index in next_tests(request.config, number, 7)]
    with Path("seen").open("a") as seen:
        seen.write(f"{worker_id} {number}:{'+'.join(following)}\\n")
"""


def run(folder: Path, *arguments: str, gpus: int, tests: str = TESTS) -> subprocess.CompletedProcess[str]:
    (folder / "suites").mkdir(exist_ok=True)
    (folder / "suites" / "test_dying.py").write_text(tests, encoding="utf-8")
    os.mkfifo(folder / "meeting")
    os.mkfifo(folder / "replaced")
    (folder / "torch").mkdir()
    for name, text in TORCH.items():
        (folder / "torch" / name).write_text(text, encoding="utf-8")
    driver = simulated_driver.build(folder / "driver")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugin.arguments(), "-p", "no:cacheprovider", "-n", "auto", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))),
            "LD_LIBRARY_PATH": str(driver),
            "SIMULATED_GPUS": str(gpus),
            "PYTEST_ADDOPTS": "",
            LEASES_VARIABLE: str(folder / "leases"),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("asked", [("--harness-engine", "cuda"), ("suites",)], ids=["by the engine", "by suites"])
def test_each_gpu_has_a_worker_and_a_new_worker_inherits_it(asked: tuple[str, ...], tmp_path: Path) -> None:
    done = run(tmp_path, *asked, "--dist", "each", gpus=2)
    seen = dict(line.split() for line in (tmp_path / "seen").read_text(encoding="utf-8").splitlines())
    assert "worker 'gw0' crashed" in done.stdout, done.stdout + done.stderr
    assert "1 failed, 3 passed" in done.stdout
    assert {seen["gw0"], seen["gw1"]} == {"GPU-01", "GPU-02"}
    assert seen["gw2"] == seen["gw0"]


def seen_by_worker(folder: Path) -> list[list[str]]:
    """Return the tests that each worker ran, in order, with those that it expected next."""
    seen: dict[str, list[str]] = {}
    for line in (folder / "seen").read_text(encoding="utf-8").splitlines():
        worker, test = line.split()
        seen.setdefault(worker, []).append(test)
    return sorted(seen.values())


@pytest.mark.nightly
def test_each_worker_gets_consecutive_tests_and_knows_its_next_ones(tmp_path: Path) -> None:
    done = run(tmp_path, "suites", gpus=2, tests=IN_ORDER)
    assert done.returncode == 0, done.stdout + done.stderr
    assert seen_by_worker(tmp_path) == [["0:1+2+3", "1:2+3", "2:3", "3:"], ["4:5+6", "5:6", "6:"]]


@pytest.mark.nightly
def test_with_another_distribution_no_worker_knows_its_next_tests(tmp_path: Path) -> None:
    done = run(tmp_path, "suites", "--dist", "worksteal", gpus=2, tests=IN_ORDER)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [test for tests in seen_by_worker(tmp_path) for test in tests]
    assert sorted(ran) == [f"{number}:" for number in range(7)]


def test_a_single_process_knows_all_following_tests(tmp_path: Path) -> None:
    tests = IN_ORDER.replace("worker_id, number", "number").replace("{worker_id}", "alone")
    done = run(tmp_path, "suites", "-n", "0", gpus=2, tests=tests)
    assert done.returncode == 0, done.stdout + done.stderr
    assert seen_by_worker(tmp_path) == [[f"{n}:{'+'.join(map(str, range(n + 1, 7)))}" for n in range(7)]]


SEARCHED = """
from harness.suite import op, tensor, tokens

@op(dims={{"T": tokens(8)}}, inputs={{"x": tensor("T")}}, requires={requires})
def {name}(x):
    return x

@{name}.reference
def {name}_reference(x):
    return x
"""


def test_searches_run_library_by_library_and_device_by_device(tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    for name, requires in {"a": (("one",),), "b": (), "c": (("one",),)}.items():
        text = SEARCHED.format(name=name, requires=requires)
        (tmp_path / "suites" / f"{name}.py").write_text(text, encoding="utf-8")
    done = run(tmp_path, "suites", "-n", "0", "-m", "blackwell", "--collect-only", "-q", gpus=1, tests="")
    tests = [line.rpartition("::")[2] for line in done.stdout.splitlines() if "::" in line]
    assert tests == [f"{op}[{device}]" for ops in ("ac", "b") for device in ("b200", "rtx-pro-6000") for op in ops], (
        done.stdout + done.stderr
    )


def test_without_a_gpu_the_cuda_engine_is_a_usage_error(tmp_path: Path) -> None:
    done = run(tmp_path, "--harness-engine", "cuda", gpus=0)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no GPU for cases: NVIDIA's driver sees no GPU" in done.stderr
