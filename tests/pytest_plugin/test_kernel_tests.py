"""`harness.kernel_test` in ordinary test files, in pytest processes of their own and with real kernels."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.errors import SuiteError
from harness.kernel_tests import KernelTest
from tests import plugin
from tests.cli.command_line import Project

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
KERNELS = """
import torch
import triton
import triton.language as tl

@triton.jit
def double_kernel(x, y, N, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < N) * 2, mask=at {comparison} N)

def double(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), B=16)
    return y
"""
TESTS = """
import pytest
import torch
from hypothesis import note, settings

import harness
from doubling import double

DECLARED = {"dims": {"N": harness.tokens(64, grows=False)}, "inputs": {"x": harness.tensor("N", grad=False)}}

@harness.kernel_test(**DECLARED, device="b200", cases=4)
def test_double(x):
    note(f"x has {x.numel()} elements")
    return double(x)

@test_double.reference
def doubled(x):
    return 2 * x
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    status: int
    out: str

    @property
    def counts(self) -> str:
        return self.out.strip().splitlines()[-1].strip("= ").rpartition(" in ")[0]


class TestProject:
    """The repository of a library whose tests use kernel tests."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text("[pytest]\npythonpath = src\n", encoding="utf-8")
        # On a CI machine Hypothesis would load a profile of its own.
        self.write("conftest.py", "from hypothesis import settings\nsettings.load_profile('default')\n")
        self.set_bound("<")
        self.write("test_rows.py", TESTS)

    def set_bound(self, comparison: str) -> None:
        """Make the kernel store up to `at < N`, or up to `at <= N`: one element too many."""
        self.write("src/doubling.py", KERNELS.replace("{comparison}", comparison))

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def pytest(self, *arguments: str) -> Finished:
        command = [sys.executable, "-m", "pytest", *plugin.arguments(), "-p", "no:cacheprovider", "--strict-markers"]
        done = subprocess.run(
            [*command, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "PYTEST_ADDOPTS": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        return Finished(status=done.returncode, out=done.stdout)


@pytest.fixture
def project(tmp_path: Path) -> TestProject:
    return TestProject(tmp_path)


def cases_of(out: str) -> list[str]:
    return re.findall(r"ran (\d+) cases? on ", out)


def test_a_failing_example_is_printed_with_its_notes_and_replayed_first(project: TestProject) -> None:
    project.set_bound("<=")
    first = project.pytest()
    assert (first.status, first.counts) == (1, "1 failed"), first.out
    example = "Falsifying example: test_double(N=1, dtype='fp32', device='b200')\n    x has 1 elements\n"
    assert example in first.out
    assert "ERROR  bounds  double_kernel  in test_double " in first.out
    assert cases_of(first.out) == ["4"]
    again = project.pytest()
    assert (again.status, example in again.out, cases_of(again.out)) == (1, True, []), again.out
    assert "fails again, before any new case" in again.out
    (stored,) = (project.folder / ".harness" / "findings").iterdir()
    replayed = Project(project.folder).harness("replay", stored.name)
    assert (replayed.status, replayed.out.splitlines()[-1]) == (1, f"{stored.name} fails again"), replayed.err
    project.set_bound("<")
    fixed = project.pytest("-rP")
    assert (fixed.status, fixed.counts, cases_of(fixed.out)) == (0, "1 passed", ["4"]), fixed.out


@pytest.mark.nightly
def test_tests_without_a_reference_assert_by_themselves(project: TestProject) -> None:
    project.write(
        "test_rows.py",
        TESTS.partition("@harness.kernel_test")[0]
        + "@harness.kernel_test(**DECLARED, cases=3)\ndef test_right(x):\n"
        + "    torch.testing.assert_close(double(x), 2 * x)\n\n"
        + "@harness.kernel_test(**DECLARED, cases=3)\ndef test_wrong(x):\n"
        + "    assert double(x).numel() == 0, 'nothing is expected'\n",
    )
    done = project.pytest("-rP")
    assert (done.status, done.counts) == (1, "1 failed, 1 passed"), done.out
    assert "test_right[h200]" in done.out  # the usual device
    assert "Falsifying example: test_wrong(N=1, dtype='fp32', device='h200')" in done.out
    assert "nothing is expected" in done.out


@pytest.mark.nightly
def test_one_case_can_be_checked_in_an_ordinary_test(project: TestProject) -> None:
    project.write(
        "test_one.py",
        "from test_rows import test_double as declared\n\n"
        "def test_eight(check_kernel):\n    check_kernel(declared, N=8, device='h200')\n\n"
        "def test_unknown_dim(check_kernel):\n    check_kernel(declared, M=8)\n",
    )
    done = project.pytest("test_one.py")
    assert (done.status, done.counts) == (1, "1 failed, 1 passed"), done.out
    assert "unknown dim or option 'M': known: N, dtype" in done.out
    project.set_bound("<=")
    wrong = project.pytest("test_one.py", "-k", "eight")
    assert (wrong.status, "Falsifying example: test_double(N=8, dtype='fp32', device='h200')" in wrong.out) == (
        1,
        True,
    )
    (command,) = re.findall(r"^  replay +harness (replay .+)$", wrong.out, re.MULTILINE)
    replayed = Project(project.folder).harness(*command.split())
    assert (replayed.status, "smallest case  test_double  N=8" in replayed.out) == (1, True), replayed.err


@pytest.mark.nightly
def test_profiles_of_hypothesis_decide_cases_and_seed(project: TestProject) -> None:
    project.write("test_rows.py", TESTS.replace(', device="b200", cases=4', ""))
    project.write(
        "conftest.py",
        "from hypothesis import settings\n"
        "settings.register_profile('few', max_examples=3, derandomize=True, database=None)\n"
        "settings.load_profile('few')\n",
    )
    runs = [project.pytest("-rP") for _ in range(2)]
    assert [cases_of(done.out) for done in runs] == [["3"], ["3"]], runs[0].out
    seeds = [re.findall(r"/s, seed (\d+)\)", done.out) for done in runs]
    assert seeds[0] == seeds[1] != []
    chosen = project.pytest("-rP", "--harness-seed", "7", "--harness-cases", "2")
    assert (cases_of(chosen.out), "/s, seed 7)" in chosen.out) == (["2"], True)
    project.set_bound("<=")
    failing = [project.pytest() for _ in range(2)]
    assert [cases_of(done.out) for done in failing] == [["3"], ["3"]]  # without a database nothing is replayed


@pytest.mark.nightly
def test_settings_and_marks_of_a_test_count(project: TestProject) -> None:
    decorated = "@pytest.mark.skip(reason='not today')\n@settings(max_examples=2)\n@harness.kernel_test(**DECLARED)"
    text = TESTS.replace('@harness.kernel_test(**DECLARED, device="b200", cases=4)', decorated)
    project.write("test_rows.py", text)
    assert project.pytest().counts == "1 skipped"
    project.write("test_rows.py", text.replace("@pytest.mark.skip(reason='not today')\n", ""))
    assert cases_of(project.pytest("-rP").out) == ["2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def test_double(x, tmp_path):",
            "test_double takes tmp_path, which is no input, dim or option: a kernel test",
        ),
        ("def test_double(self, x):", "test_double takes self, which is no input, dim or option"),
    ],
)
def test_a_wrong_declaration_is_an_error_of_collection(project: TestProject, text: str, message: str) -> None:
    without_torch = TESTS.replace("import torch\n", "").replace("from doubling import double\n", "")
    project.write("test_rows.py", without_torch.replace("def test_double(x):", text))
    done = project.pytest()
    assert (done.status, message in done.out.replace("\n", " "), "Traceback" in done.out) == (2, True, False), done.out


def test_the_function_itself_can_still_be_called() -> None:
    @harness.kernel_test(dims={"N": harness.tokens()}, inputs={"x": harness.tensor("N")})
    def test_sum(x: list[int]) -> int:
        return sum(x)

    assert isinstance(test_sum, KernelTest)
    assert test_sum([1, 2]) == 3
    op = test_sum.complete("tests/test_x.py")
    assert (op.id, op.inputs["x"].grad) == ("tests/test_x.py:test_sum", False)


def test_names_of_the_package_are_imported_on_use() -> None:
    program = "import sys, harness\nassert not [name for name in sys.modules if name.startswith('harness.')]\n"
    program += "assert harness.kernel_test and harness.tokens() and 'torch' not in sys.modules\n"
    program += "try: harness.kernel_tset\nexcept AttributeError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "module 'harness' has no attribute 'kernel_tset'\n"


def test_an_unknown_argument_is_named() -> None:
    misspelt: Any = {"refuse": ("ValueError",)}

    @harness.kernel_test(dims={}, inputs={}, **misspelt)
    def test_nothing() -> None: ...

    with pytest.raises(SuiteError, match="has an unknown argument 'refuse': did you mean refuses"):
        test_nothing.complete("tests/test_x.py")
