"""`harness check`: what it prints, its exit status, and what it refuses."""

import json
import shutil
import signal
from pathlib import Path

import psutil
import pytest

from tests.cli.command_line import ROOT, Project

ANSWERS = ROOT / "tests" / "check_answers"
CANDIDATES = ROOT / "tests" / "checks" / "candidates.py"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for path in (*ANSWERS.glob("swish_*.py"), CANDIDATES):
        shutil.copy(path, tmp_path)
    return Project(tmp_path)


@pytest.mark.slow
def test_a_right_answer_exits_with_0(project: Project) -> None:
    finished = project.harness("check", "swish_right.py", "swish_problem.py", "--json", "verdict.json")
    assert (finished.status, finished.err) == (0, "")
    assert finished.out.splitlines()[-1] == f"right: {project.folder}/swish_right.py:ModelNew"
    verdict = json.loads((project.folder / "verdict.json").read_text())
    assert (verdict["kind"], verdict["ruling"]) == ("verdict", "right")


@pytest.mark.slow
def test_a_wrong_answer_exits_with_1_and_can_be_replayed(project: Project) -> None:
    finished = project.harness("check", "swish_cached.py", "swish_problem.py", "--seed", "1")
    assert finished.status == 1
    assert "cached output: the output is that of an earlier call with other inputs" in finished.out
    finished = project.harness("check", "candidates.py:raises", "candidates.py:reference", *inputs("sample"))
    assert finished.status == 1
    (replay,) = (line.split() for line in finished.out.splitlines() if line.startswith("    harness replay"))
    finished = project.harness(*replay[1:])
    assert (finished.status, finished.out.splitlines()[-1]) == (1, f"{replay[2]} fails again")
    candidates = project.folder / CANDIDATES.name
    repaired = candidates.read_text().replace('raise ValueError("no such luck")', "return with_gradient(x)")
    candidates.write_text(repaired)
    finished = project.harness(*replay[1:])
    assert (finished.status, finished.err) == (0, "")
    assert f"{replay[2]} is gone: completes" in " ".join(finished.out.split())


@pytest.mark.slow
def test_sizes_that_are_declared_are_the_only_ones(project: Project) -> None:
    sizes = ("--sizes", "n64=3", "100=7", "--sizes", "64=5")
    finished = project.harness("check", "candidates.py:right", "candidates.py:reference", *inputs("sample"), *sizes)
    assert finished.out.splitlines()[:2] == ["sizes: n64 (x.0): 3, 5", "sizes: n100 (x.1): 7"]
    assert finished.status == 0


@pytest.mark.slow
def test_a_size_that_no_sample_has_is_refused(project: Project) -> None:
    sizes = ("--sizes", "63=3")
    finished = project.harness("check", "candidates.py:right", "candidates.py:reference", *inputs("sample"), *sizes)
    assert finished.status == 2
    assert "--sizes names 63, but the dims are n64 (x.0), n100 (x.1)" in finished.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("swish_right.py", "swish_right.py"), "has no Model: a candidate's file has ModelNew"),
        (("swish_problem.py",), "has no ModelNew"),
        (("missing.py", "swish_problem.py"), "there is no file 'missing.py'"),
        (("candidates.py:rigth", "candidates.py:reference", "--inputs", "candidates.py:sample"), "did you mean right"),
        (("candidates.py:right", "candidates.py:reference"), "functions need a reference and inputs"),
        (("candidates.py:right", "a/b:c", "--inputs", "candidates.py:sample"), "neither a module nor a Python file"),
        (("swish_right.py", "swish_problem.py", "--device", "h20"), "unknown device 'h20'"),
        (("swish_right.py", "swish_problem.py", "--sizes", "16"), "'16' declares no sizes: write DIM=SIZE"),
    ],
)
def test_a_mistake_in_the_command_is_said_in_one_line(
    project: Project, arguments: tuple[str, ...], message: str
) -> None:
    finished = project.harness("check", *arguments)
    assert (finished.status, finished.out) == (2, "")
    assert message in " ".join(finished.err.split())


@pytest.mark.slow
def test_ctrl_c_ends_every_process(project: Project) -> None:
    process = project.start("check", "candidates.py:hangs", "candidates.py:reference", *inputs("sample"))
    hanging = psutil.Process(process.pid)
    while len(started := hanging.children(recursive=True)) < 3:
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "harness: interrupted\n")
    _, alive = psutil.wait_procs(started, timeout=20)
    assert alive == []


def inputs(name: str, file: str = "candidates.py") -> tuple[str, str]:
    return "--inputs", f"{file}:{name}"


@pytest.mark.slow
def test_compiled_code_that_races_is_a_broken_promise(project: Project) -> None:
    shutil.copy(CANDIDATES.with_name("racing_kernels.py"), project.folder / "racing.py")
    task = ("racing.py:doubled", "racing.py:reference", *inputs("sample", "racing.py"))
    options = ("--device", "h200", "--cases", "4", "--seed", "1")
    finished = project.harness("check", *task, *options, "--engine", "ptx")
    assert finished.status == 1
    assert "broken promise: compiled-code: race in shared memory" in finished.out
    (replay,) = {line.strip() for line in finished.out.splitlines() if line.startswith("    harness replay")}
    assert replay.endswith(" --engine ptx")


@pytest.mark.parametrize("engine", ["ptxx", "cuda"])
def test_an_engine_that_checks_nothing_is_refused(project: Project, engine: str) -> None:
    finished = project.harness("check", "swish_right.py", "swish_problem.py", "--engine", engine)
    assert (finished.status, len(finished.err.splitlines())) == (2, 1)
    assert f"unknown engine of a check '{engine}'" in finished.err
