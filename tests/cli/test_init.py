"""`harness init` in a repository of its own, and what its drafts find as they are."""

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.cli.command_line import Project

GIT = shutil.which("git") or "git"

pytestmark = pytest.mark.slow

ADDING = """
import triton
import triton.language as tl

@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, x + y, mask=mask)
"""
ROWS = """
import torch
import triton
import triton.language as tl

@triton.jit
def softmax_kernel(output_ptr, input_ptr, row_stride, n_cols, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * row_stride + columns
    row = tl.load(input_ptr + at, mask=columns < n_cols, other=-float("inf"))
    numerator = tl.exp(row - tl.max(row, axis=0))
    tl.store(output_ptr + at, numerator / tl.sum(numerator, axis=0), mask=columns < n_cols)

def softmax(x: torch.Tensor) -> torch.Tensor:
    T, D = x.shape
    x = x.contiguous()
    y = torch.empty_like(x)
    softmax_kernel[(T,)](y, x, x.stride(0), D, BLOCK=triton.next_power_of_2(D))
    return y

def _hidden(x):
    return softmax(x)
"""
SETTINGS = """\
# Settings of this project.
[project]
name   =  "rows"   # spaced as its author likes it
version = "1"
"""
WORKFLOW = ".github/workflows/kernel-harness.yml"


@pytest.fixture
def repository(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    subprocess.run([GIT, "init", "-q", tmp_path], check=True)
    project.write("rows/__init__.py", "")
    project.write("rows/softmax.py", ROWS)
    project.write("pyproject.toml", SETTINGS)
    return project


def files_of(project: Project) -> set[str]:
    found = (path.relative_to(project.folder).as_posix() for path in project.folder.rglob("*") if path.is_file())
    return {name for name in found if not name.startswith(".git/")}


def test_init_writes_what_it_says_and_the_draft_runs_as_it_is(repository: Project) -> None:
    before = files_of(repository)
    done = repository.harness("init")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        "wrote suites/softmax.py, 1 op: check what is marked as guessed",
        "changed pyproject.toml",
        f"wrote {WORKFLOW}",
        "next: harness fuzz suites/softmax.py --cases 30",
    ]
    assert files_of(repository) - before == {"suites/softmax.py", WORKFLOW}
    settings = (repository.folder / "pyproject.toml").read_text(encoding="utf-8")
    assert settings.startswith(SETTINGS)
    assert tomllib.loads(settings)["tool"]["kernel-harness"] == {"device": "h200", "with": ["."]}
    found = repository.harness("fuzz", "suites/softmax.py", "--cases", "6", "--seed", "1")
    assert found.status == 0, found.out + found.err
    assert "ran 6 cases on h200 (132 SMs, sm_90) in " in found.out
    assert "6 passed, 0 failed, 0 abstained" in found.out


def test_a_kernel_alone_is_launched_and_its_missing_definition_is_named(repository: Project) -> None:
    repository.write("adding.py", ADDING)
    done = repository.harness("init", "adding.py")
    workflow = (repository.folder / WORKFLOW).read_text(encoding="utf-8")
    assert ("harness fuzz" in workflow, "LIBRARY" in workflow) == (True, False)
    assert done.out.splitlines()[0] == "wrote suites/adding.py, 1 op: write the definition of add_kernel (line 34)"
    found = repository.harness("fuzz", "suites/adding.py", "--cases", "4", "--seed", "1", "--device", "h200")
    assert found.status == 3, found.out + found.err
    assert "not checked: add_kernel (its results, for it has no definition: write the function under" in found.out
    assert "4 passed, 0 failed" in found.out
    suite = repository.folder / "suites" / "adding.py"
    text = suite.read_text(encoding="utf-8")
    number = 'raise NotImplementedError("the definition of add_kernel in differentiable torch")'
    assert text.splitlines()[33].strip() == number
    suite.write_text(text.replace(number, "return x_ptr + y_ptr"), encoding="utf-8")
    again = repository.harness("fuzz", "suites/adding.py", "--cases", "4", "--seed", "1", "--device", "h200")
    assert (again.status, "4 passed, 0 failed" in again.out) == (0, True), again.out + again.err


def test_a_dry_run_shows_the_changes_and_writes_nothing(repository: Project) -> None:
    before = files_of(repository)
    done = repository.harness("init", "rows.softmax", "--dry-run")
    assert (done.status, files_of(repository)) == (0, before)
    assert '+[tool.kernel-harness]\n+device = "h200"' in done.out
    assert " name   =  " not in "".join(line for line in done.out.splitlines() if line.startswith("-"))
    assert "would write suites/softmax.py, 1 op: check what is marked as guessed\nwould change pyproject" in done.out


def test_files_that_exist_stay_and_others_are_added(repository: Project) -> None:
    repository.write("suites/softmax.py", "# mine\n")
    repository.write("adding.py", ADDING)
    before = files_of(repository)
    done = repository.harness("init")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[0] == (
        "left as it is: suites/softmax.py: add --force to replace it, or --dry-run to compare"
    )
    assert files_of(repository) == before | {"suites/adding.py", WORKFLOW}
    assert (repository.folder / "suites/softmax.py").read_text(encoding="utf-8") == "# mine\n"
    forced = repository.harness("init", "--force")
    assert "changed suites/softmax.py, 1 op" in forced.out
    again = repository.harness("init")
    assert again.out.splitlines()[:4] == [
        "left as it is: suites/adding.py",
        "left as it is: suites/softmax.py",
        "left as it is: pyproject.toml",
        f"left as it is: {WORKFLOW}",
    ]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("nothing.here",), "there is no nothing.here: name a Python file of this repository, or a module as"),
        (("rows/__init__.py",), "rows/__init__.py defines neither a kernel nor a public function"),
        (("broken.py",), "broken.py:1: "),
    ],
)
def test_a_target_that_is_none_is_named(repository: Project, arguments: tuple[str, ...], line: str) -> None:
    repository.write("broken.py", "def (\n")
    done = repository.harness("init", *arguments)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert line in done.err


def test_a_repository_without_kernels_is_told_to_name_a_file(tmp_path: Path) -> None:
    done = Project(tmp_path).harness("init")
    assert done.status == 2
    assert done.err.startswith("harness: no file here defines a kernel by @triton.jit: name a file")
