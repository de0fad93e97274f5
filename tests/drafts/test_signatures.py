"""What sources say of kernels and functions is read without importing anything."""

from pathlib import Path

import pytest

from harness.drafts.signatures import SourceParameter, read_source
from harness.errors import UsageError

ROWS = """
raise AssertionError("sources are never executed")

@triton.autotune(configs=[], key=["n_cols"])
@triton.jit
def softmax_kernel(output_ptr, input_ptr, index_ptr, row_stride, n_cols, BLOCK: tl.constexpr, S: tl.constexpr = 1):
    row = tl.load(index_ptr + tl.program_id(1))
    start = input_ptr + row * row_stride
    columns = tl.arange(0, BLOCK)
    values = tl.load(start + columns, mask=columns < n_cols)
    tl.store(output_ptr + row * row_stride + columns, values, mask=columns < n_cols)

@triton.jit
def _doubled(x):
    return x * 2

class Softmax(torch.autograd.Function):
    def forward(ctx, x):
        softmax_kernel[(1,)](x)

def softmax(x: torch.Tensor, dim: int = -1, *, out=None):
    T, D = x.shape
    return Softmax.apply(x)

def _private(x):
    softmax_kernel[(1,)](x)

def direct(x):
    return _private(x)

def version():
    return 1
"""  # fmt: skip


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.py"
    path.write_text(ROWS, encoding="utf-8")
    return path


def test_a_kernel_shows_what_it_loads_and_stores(rows: Path) -> None:
    (kernel,) = read_source(rows).kernels
    assert (kernel.name, kernel.line, kernel.axes, kernel.is_tuned) == ("softmax_kernel", 6, 2, True)
    assert kernel.loaded == {"input_ptr", "index_ptr"}
    assert kernel.stored == {"output_ptr"}
    assert [one.name for one in kernel.parameters if one.is_constexpr] == ["BLOCK", "S"]
    assert kernel.parameters[-1] == SourceParameter(name="S", annotation="tl.constexpr", default=1)


def test_functions_that_launch_kernels_are_what_a_suite_tests(rows: Path) -> None:
    source = read_source(rows)
    assert [(one.name, one.launches, one.is_differentiable) for one in source.functions] == [
        ("softmax", True, True),
        ("direct", True, False),
        ("version", False, False),
    ]
    assert [one.name for one in source.subjects] == ["softmax", "direct"]


def test_shapes_that_a_function_unpacks_are_known(rows: Path) -> None:
    softmax = read_source(rows).functions[0]
    assert softmax.unpacked == (("x", ("T", "D")),)
    assert [(one.name, one.default) for one in softmax.parameters[1:]] == [("dim", -1), ("out", None)]


def test_a_file_that_is_no_python_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("x = 1\ndef f(:\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"broken\.py:2: invalid syntax"):
        read_source(tmp_path / "broken.py")
