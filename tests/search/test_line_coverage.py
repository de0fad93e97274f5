"""The launches of a campaign are counted by the lines of kernels that they executed."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.documents.campaign import KernelLines
from harness.model.executed_lines import ExecutedLines, FileLines, line_counts, ranges_of
from harness.model.merging import merged_rows
from harness.model.run import Run
from harness.search.line_coverage import LineCoverage
from tests.search.fakes import SIMPLEST, clean

SOURCE = """\
import triton
import triton.language as tl

@triton.jit
def device(x):
    return x + 1

@triton.jit
def kernel(x, n):
    if n > 3:
        value = tl.load(x)
        tl.store(x, device(value))
    else:
        tl.store(x + 1, 0.0)

@triton.jit
def forgotten_kernel(x):
    tl.store(x, tl.load(x))

def host(x):
    return x * 2
"""
DEVICE = KernelLines(file="kernels.py", function="device", line=5, lines=((6, 6, 2),))
KERNEL = KernelLines(file="kernels.py", function="kernel", line=9, lines=((10, 10, 5), (11, 12, 2), (14, 14, 3)))
FORGOTTEN = KernelLines(file="kernels.py", function="forgotten_kernel", line=17, lines=((18, 18, 0),))


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "kernels.py"
    path.write_text(SOURCE)
    return str(path)


def with_lines(file: str, *rows: tuple[int, ...], launches: int = 1) -> Run:
    lines = tuple(
        ExecutedLines(files=(FileLines(file=file, ranges=ranges_of(row)),), launches=launches) for row in rows
    )
    return replace(clean(SIMPLEST), lines=lines)


def name(file: str) -> str:
    return Path(file).name


def test_launches_are_counted_by_line_and_function(source: str) -> None:
    coverage = LineCoverage()
    coverage.count(with_lines(source, (10, 11, 12, 6), (10, 14)))
    coverage.count(with_lines(source, (10, 12, 6)))
    coverage.count(with_lines(source, (14,), launches=2))
    assert coverage.rows(name) == (DEVICE, KERNEL, FORGOTTEN)


def test_a_file_that_is_gone_has_no_rows(tmp_path: Path) -> None:
    coverage = LineCoverage()
    coverage.count(with_lines(str(tmp_path / "gone.py"), (10,)))
    assert coverage.rows(name) == ()


def test_rows_of_several_searches_are_summed_by_line() -> None:
    elsewhere = replace(KERNEL, lines=((10, 11, 1), (12, 12, 0), (14, 14, 4)))
    summed = replace(KERNEL, lines=((10, 10, 6), (11, 11, 3), (12, 12, 2), (14, 14, 7)))
    assert merged_rows([DEVICE, KERNEL, elsewhere]) == (DEVICE, summed)


def test_neighbours_with_equal_counts_are_one_range() -> None:
    assert line_counts({3: 1, 1: 1, 2: 1, 4: 2, 6: 2, 7: 2}) == ((1, 3, 1), (4, 4, 2), (6, 7, 2))
    assert ranges_of([7, 1, 2, 3]) == ((1, 3), (7, 7))


def test_lines_that_no_launch_executed_are_known() -> None:
    assert replace(KERNEL, lines=((10, 12, 0), (14, 14, 1))).missed == (10, 11, 12)
