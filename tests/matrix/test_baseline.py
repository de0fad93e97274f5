"""A baseline: what changed since, and what makes the command fail."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.documents.build_matrix import BuildMatrix
from harness.documents.files import read, write
from harness.errors import UsageError
from harness.matrix.baseline import Figure, FigureChange, changes, read_baseline
from harness.reports.matrix_changes import change_lines
from tests.cli.command_line import ROOT, Project

SUITE = str(ROOT / "tests/matrix/matrix_suite.py")
ON = ("--device", "h200", "--processes", "2")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A folder with a matrix, `now.json`; its cache makes the next one in seconds."""
    folder = tmp_path_factory.mktemp("baseline")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(folder / "cache"))
        made = Project(folder)
        assert made.harness("matrix", SUITE, *ON, "--json", "now.json").status == 0
        yield made


def matrix_of(project: Project) -> BuildMatrix:
    return read(project.folder / "now.json", BuildMatrix)


def otherwise(matrix: BuildMatrix, kernel: str, **facts: Any) -> BuildMatrix:
    """Return the matrix with other facts of the first build of a kernel."""
    key = next(row.kernel.builds[0].key for row in matrix.rows if row.kernel.kernel == kernel)
    builds = tuple(
        replace(build, facts=replace(build.facts, **facts)) if build.request.key == key else build
        for build in matrix.builds
    )
    return replace(matrix, builds=builds)


def test_equal_matrices_have_no_changes(project: Project) -> None:
    found = changes(matrix_of(project), matrix_of(project))
    assert (found.changed, found.compared, found.new, found.gone) == ((), 6, (), ())


def test_a_figure_that_grew_is_named_with_both_values(project: Project) -> None:
    now = matrix_of(project)
    before = otherwise(now, "copy_kernel", registers_per_thread=8)
    registers = next(build.facts.registers_per_thread for build in now.builds if build not in before.builds)
    found = changes(before, now)
    assert found.changed == (
        FigureChange(
            figure=Figure.REGISTERS,
            kernel="copy_kernel",
            config="num_warps: 4, num_stages: 3",
            device="h200",
            before=8,
            now=registers,
        ),
    )
    assert found.worse([Figure.REGISTERS]) == found.changed
    assert found.worse([Figure.SPILLS]) == ()
    assert f"    copy_kernel 8 -> {registers} (num_warps: 4, num_stages: 3) on h200" in list(change_lines(found))


def test_configs_are_compared_although_another_triton_prints_more_settings(project: Project) -> None:
    now = matrix_of(project)
    rows = tuple(
        replace(
            row,
            kernel=replace(
                row.kernel,
                builds=tuple(
                    replace(build, config=f"{build.config}, ir_override: None") for build in row.kernel.builds
                ),
            ),
        )
        for row in now.rows
    )
    found = changes(replace(now, rows=rows), now)
    assert (found.compared, found.new, found.gone) == (6, (), ())


def test_figures_of_a_build_that_failed_before_are_not_compared(project: Project) -> None:
    now = matrix_of(project)
    before = otherwise(now, "copy_kernel", failure="ptxas failed", registers_per_thread=8)
    assert Figure.REGISTERS not in {change.figure for change in changes(before, now).changed}


def test_a_config_that_no_longer_fits_is_worse_with_its_reason(project: Project) -> None:
    now = otherwise(matrix_of(project), "copy_kernel", shared_bytes=300_000)
    found = changes(matrix_of(project), now)
    (worse,) = found.worse([Figure.FITS])
    assert worse.why == "needs 300000 bytes of shared memory, where h200 has 232448"
    assert changes(now, matrix_of(project)).worse(Figure) == ()


@pytest.mark.parametrize(("figure", "status"), [("registers", 1), ("spills,shared,scratch,fits", 0)])
def test_only_the_named_figures_fail(project: Project, figure: str, status: int) -> None:
    before = otherwise(matrix_of(project), "copy_kernel", registers_per_thread=8)
    write(before, project.folder / "before.json")
    done = project.harness("matrix", SUITE, *ON, "--baseline", "before.json", "--fail-on", figure)
    assert done.status == status, done.err
    assert "registers a thread: 1 cell worse, 0 better" in done.out


def test_a_baseline_of_another_library_is_refused_in_one_line(project: Project) -> None:
    write(replace(matrix_of(project), libraries=("liger-kernel==0.8.5",)), project.folder / "other.json")
    done = project.harness("matrix", SUITE, *ON, "--baseline", "other.json")
    assert (done.status, done.err) == (
        2,
        "harness: --baseline other.json: a matrix of liger-kernel, where this one is of no library\n",
    )


@pytest.mark.parametrize(
    "text", ['{"kind": "matrix", "schema_version": 99}', '{"kind": "campaign", "schema_version": 2}', "{", ""]
)
def test_a_baseline_of_another_schema_is_refused_in_one_line(project: Project, text: str) -> None:
    project.write("schema.json", text)
    done = project.harness("matrix", SUITE, *ON, "--baseline", "schema.json")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert done.err.startswith("harness: --baseline schema.json: ")


def test_releases_and_folders_of_a_library_can_be_compared(project: Project, tmp_path: Path) -> None:
    write(replace(matrix_of(project), libraries=("fla_core==0.5.2",)), tmp_path / "old.json")
    for libraries in (("fla-core==0.6.0",), ("/somewhere/fla",)):
        assert read_baseline(tmp_path / "old.json", libraries).suites
    with pytest.raises(UsageError, match="a matrix of fla-core"):
        read_baseline(tmp_path / "old.json", ("liger-kernel==0.8.5",))


def test_figures_without_a_baseline_are_a_mistake(project: Project) -> None:
    done = project.harness("matrix", SUITE, *ON, "--fail-on", "spills")
    assert (done.status, done.err) == (2, "harness: --fail-on compares with a baseline: add --baseline FILE\n")
