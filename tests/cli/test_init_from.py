"""`harness init --from` after `harness run`: the drafts run as they are."""

import json
from pathlib import Path

import pytest

from tests.cli.command_line import Project

pytestmark = pytest.mark.slow

ROWS = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, w, y, D, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at, columns = tl.program_id(0).to(tl.int64) * D, tl.arange(0, BLOCK)
    inside = columns < D
    row = tl.load(x + at + columns, mask=inside, other=0.0) * tl.load(w + columns, mask=inside, other=0.0)
    tl.store(y + at + columns, row * FACTOR, mask=inside)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, factor):
        x = x.contiguous()
        rows = x.reshape(-1, x.shape[-1])
        y = torch.empty_like(rows)
        D = rows.shape[1]
        scale_kernel[(rows.shape[0],)](rows, w, y, D, FACTOR=factor, BLOCK=triton.next_power_of_2(D))
        return y.reshape(x.shape)


def scale(x, w, factor=2):
    return Scale.apply(x, w, factor)


class Layer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width, device="cuda"), requires_grad=False)

    def forward(self, x):
        return scale(x, self.weight, factor=4)
"""
TESTS = """
import pytest
import torch
import triton

from rows.scale import Layer, scale, scale_kernel


def wrong_sum(x, w):
    return x + w


def definition(x, w, factor):
    return x * w * factor


@pytest.mark.parametrize(("B", "T", "D"), [(1, 3, 8), (2, 5, 20)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scale(B, T, D, dtype):
    x = torch.randn(B, T, D, device="cuda", dtype=dtype)
    w = torch.randn(D, device="cuda", dtype=dtype)
    y = scale(x, w)
    torch.testing.assert_close(y, definition(x, w, 2))


def test_layer():
    x = torch.randn(3, 8, device="cuda")
    assert Layer(8)(x).shape == x.shape


@pytest.mark.parametrize("width", [8, 20])
def test_launch(width):
    x, w = torch.randn(3, width, device="cuda"), torch.randn(width, device="cuda")
    out = torch.empty_like(x)
    scale_kernel[(3,)](x, w, out, width, FACTOR=1, BLOCK=triton.next_power_of_2(width))
    torch.testing.assert_close(out, x * w)


def test_past_the_end():
    x, w = torch.randn(3, 8, device="cuda"), torch.randn(8, device="cuda")
    scale_kernel[(4,)](x, w, torch.empty_like(x), 8, FACTOR=1, BLOCK=8)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("drafted"))
    made.write("pyproject.toml", "")
    made.write("rows/__init__.py", "")
    made.write("rows/scale.py", ROWS)
    made.write("tests/test_scale.py", TESTS)
    done = made.process(
        "run", "--json", "report.json", "--", "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"
    )
    assert "8 passed" in done.out, done.out + done.err
    return made


def drafted(project: Project, test: str, *options: str) -> str:
    done = project.process("init", "--from", f"tests/test_scale.py::{test}", *options)
    assert (done.status, done.err) == (0, "")
    return done.out


def fuzzed(project: Project, suite: str) -> str:
    found = project.harness("fuzz", suite, "--cases", "6", "--seed", "1", "--device", "h200")
    return found.out + found.err


def test_a_function_is_drafted_with_its_reference_and_passes(project: Project) -> None:
    assert drafted(project, "test_scale").splitlines() == [
        "wrote suites/scale.py, 1 op from 4 calls: check what is marked as guessed",
        "next: harness fuzz suites/scale.py --cases 30",
    ]
    text = (project.folder / "suites/scale.py").read_text(encoding="utf-8")
    assert 'dims={"B": Dim(low=1, high=2), "T": tokens(256), "D": width(20)},' in text
    assert "dtypes=(DType.FP32, DType.BF16)," in text
    assert "from test_scale import definition" in text
    assert "6 passed, 0 failed, 0 abstained" in fuzzed(project, "suites/scale.py")


def test_a_wrong_reference_is_noticed(project: Project) -> None:
    drafted(project, "test_scale", "-o", "suites/wrong.py")
    suite = project.folder / "suites/wrong.py"
    text = suite.read_text(encoding="utf-8").replace("import definition", "import wrong_sum")
    suite.write_text(text.replace("definition(x, w, 2)", "wrong_sum(x, w)"), encoding="utf-8")
    assert "wrong-value" in fuzzed(project, "suites/wrong.py")


def test_a_launch_of_the_test_itself_is_drafted_with_its_grid(project: Project) -> None:
    drafted(project, "test_launch")
    text = (project.folder / "suites/launch.py").read_text(encoding="utf-8")
    called = "kernel[(B,)](x=x, w=w, y=y, D=width, FACTOR=FACTOR, BLOCK=triton.next_power_of_2(width))"
    assert called.replace("FACTOR=FACTOR", "FACTOR=1") in text
    assert "6 passed, 0 failed, 0 abstained" in fuzzed(project, "suites/launch.py")


def test_a_module_leads_to_the_function_that_it_calls(project: Project) -> None:
    assert "write the definition of scale (line " in drafted(project, "test_layer")
    text = (project.folder / "suites/layer.py").read_text(encoding="utf-8")
    assert 'options={"factor": (4,)},' in text
    assert "not checked: scale (its results, for it has no definition: write the function under" in fuzzed(
        project, "suites/layer.py"
    )


def test_a_finding_names_its_test(project: Project) -> None:
    report = json.loads((project.folder / "report.json").read_text(encoding="utf-8"))
    done = project.process("init", "--from", report["findings"][0]["id"])
    assert done.out.startswith("wrote suites/past_the_end.py, 1 op from 1 call: write the definition of scale_kernel")


def test_a_suite_is_replaced_only_if_asked(project: Project) -> None:
    project.write("suites/mine.py", "# mine\n")
    done = project.process("init", "--from", "tests/test_scale.py::test_scale", "-o", "suites/mine.py")
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "harness: suites/mine.py would be overwritten, so nothing is written: add --force, or --dry-run to compare\n"
    )
    assert (project.folder / "suites/mine.py").read_text(encoding="utf-8") == "# mine\n"


def test_a_dry_run_shows_the_suite_of_a_test_and_writes_nothing(project: Project) -> None:
    out = drafted(project, "test_scale", "-o", "suites/shown.py", "--dry-run")
    assert "+def scale(x, w):" in out
    assert "would write suites/shown.py, 1 op from 4 calls" in out
    assert not (project.folder / "suites/shown.py").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rows.py", "--from", "tests/test_norm.py"), "--from drafts the suite of a test: leave TARGET out"),
        (("-o", "suites/mine.py"), "-o names the suite of a test: add --from TEST"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = Project(tmp_path).harness("init", *arguments)
    assert (done.status, done.out, done.err) == (2, "", f"harness: {message}\n")


def test_a_test_that_was_not_run_is_named(tmp_path: Path) -> None:
    done = Project(tmp_path).harness("init", "--from", "tests/test_norm.py::test_it")
    assert (done.status, done.out) == (2, "")
    assert done.err == "harness: no test was seen here: run it first, as harness run -- pytest tests\n"
