"""`harness upgrade` between planted Tritons: the installed one, with functions of its language changed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.documents.files import read
from harness.documents.upgrade_report import Right, UpgradeReport, UpgradeVerdict
from tests.cli.command_line import ROOT, Finished, Project
from tests.upgrade.planted_triton import install

SUITE = str(ROOT / "tests/upgrade/planted_suite.py")
OLD, NEW = "3.6.0", "3.8.0"
FILES = ("--json", "u.json", "--html", "u.html", "--markdown", "u.md")
BEGIN = """
from triton.runtime.jit import jit

@jit
def planted_double(x):
    return {double}

@jit
def planted_third(x):
    return {third}
"""
REMOVED = """
@jit
def planted_removed(x):
    return x + x
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A folder with a finished upgrade: its new release mends one function, changes one, and lacks one."""
    folder = tmp_path_factory.mktemp("upgrade")
    install(folder / "cache", OLD, language=BEGIN.format(double="x * 3", third="x / 3") + REMOVED)
    install(folder / "cache", NEW, language=BEGIN.format(double="x * 2", third="x * (1 / 3)"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(folder / "cache"))
        patch.setenv("PIP_NO_INDEX", "1")
        made = Project(folder)
        made.write("out.txt", upgrade(made, *FILES).out)
        yield made


def upgrade(project: Project, *options: str, suites: tuple[str, ...] = (SUITE,)) -> Finished:
    cases = ("--device", "h200", "--cases", "2", "--processes", "2")
    return project.harness("upgrade", "triton", OLD, NEW, *suites, *cases, *options)


def report_of(project: Project) -> UpgradeReport:
    return read(project.folder / "u.json", UpgradeReport)


def test_each_kernel_has_its_verdict_the_worst_first(project: Project) -> None:
    assert [(kernel.kernel, kernel.verdict) for kernel in report_of(project).kernels] == [
        ("removed_kernel", UpgradeVerdict.REMOVED),
        ("doubled_kernel", UpgradeVerdict.NEW_IS_RIGHT),
        ("rounded_kernel", UpgradeVerdict.ROUNDING),
        ("unchanged_kernel", UpgradeVerdict.SAME_CODE),
    ]


def test_a_removed_name_is_reported_with_its_line(project: Project) -> None:
    (failure,) = report_of(project).kernels[0].failures
    assert failure.removed == "triton.language.planted_removed"
    assert failure.source is not None
    line = Path(SUITE).with_name("planted_kernels.py").read_text(encoding="utf-8").splitlines()[failure.source.line - 1]
    assert "planted_removed" in line


def test_exact_arithmetic_says_which_release_is_right(project: Project) -> None:
    differences = report_of(project).kernels[1].differences
    assert {difference.right for difference in differences} == {Right.NEW}
    assert "where the float64 reference gives" in differences[0].why


def test_a_case_that_completes_no_more_stands_against_the_upgrade(project: Project) -> None:
    endings = report_of(project).worse_endings
    assert {(ending.old, ending.new.partition(" ")[0]) for ending in endings} == {("", "CompilationError")}
    assert all(ending.case.startswith("removed ") for ending in endings)


def test_the_answer_is_the_last_line(project: Project) -> None:
    out = (project.folder / "out.txt").read_text(encoding="utf-8")
    assert out.splitlines()[-1] == (
        "triton 3.8.0 cannot replace 3.6.0 here: removed API: 1 kernel, no longer completed: 2 cases"
    )


@pytest.mark.nightly
def test_a_second_upgrade_runs_nothing_and_says_the_same(project: Project) -> None:
    before, kept = report_of(project), sorted((project.folder / "cache").rglob("*.json"))
    times = [path.stat().st_mtime_ns for path in kept]
    assert upgrade(project, *FILES).status == 1
    assert replace(report_of(project), seconds=before.seconds) == before
    assert [path.stat().st_mtime_ns for path in sorted((project.folder / "cache").rglob("*.json"))] == times


@pytest.mark.nightly
def test_nothing_stands_against_what_only_rounds(project: Project) -> None:
    done = upgrade(project, "--op", "rounded", "--op", "unchanged")
    assert (done.status, done.out.splitlines()[-1]) == (0, "nothing stands against triton 3.8.0 in the place of 3.6.0")


@pytest.mark.nightly
def test_verdicts_that_fail_are_chosen_by_name(project: Project) -> None:
    assert upgrade(project, "--op", "rounded", "--fail-on", "rounding").status == 1


@pytest.mark.nightly
def test_a_library_that_fails_on_import_costs_its_own_suite_alone(project: Project) -> None:
    project.write("library/planted_library/__init__.py", "from triton.language import planted_removed as double\n")
    project.write(
        "importing.py",
        (
            "from harness.suite import op, tensor, tokens\n"
            "@op(dims={'T': tokens(8)}, inputs={'x': tensor('T', grad=False)}, launches=False)\n"
            "def imported(x):\n    from planted_library import double\n    return x * (1 if double else 2)\n"
            "@imported.reference\ndef reference(x):\n    return x * 1\n"
        ),
    )
    options = ("--op", "imported", "--op", "unchanged", "--with", "library", "--json", "i.json")
    done = upgrade(project, *options, suites=("importing.py", SUITE))
    report = read(project.folder / "i.json", UpgradeReport)
    ((suite, why),) = [(each.suite, each.new) for each in report.worse_suites]
    assert (done.status, suite.rpartition("/")[2]) == (1, "importing.py")
    assert "planted_removed" in why
    assert [(kernel.kernel, kernel.verdict) for kernel in report.kernels] == [
        ("unchanged_kernel", UpgradeVerdict.SAME_CODE)
    ]


def test_page_and_markdown_have_each_changed_kernel(project: Project) -> None:
    page, markdown = (project.folder.joinpath(name).read_text(encoding="utf-8") for name in ("u.html", "u.md"))
    for kernel in ("removed_kernel", "doubled_kernel", "rounded_kernel"):
        assert kernel in page
        assert kernel.replace("_", "\\_") in markdown
    assert "unchanged" not in markdown


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("triton", OLD, "3.7.9", SUITE), "cannot install triton==3.7.9: "),
        (("triton", "2.0.0", NEW, SUITE), "2.0.0: the harness works with triton"),
        (
            ("triton", OLD, "no-such-wheel.whl", SUITE),
            "'no-such-wheel.whl' is neither a release of Triton such as 3.9.0, nor a wheel",
        ),
        (("triton", OLD, NEW, "no_such_suite"), "unknown suite 'no_such_suite'"),
        (("torch", OLD, NEW, SUITE), "'torch' cannot be upgraded: only triton"),
        (("triton", OLD, NEW, SUITE, "--fail-on", "slow"), "unknown verdict 'slow'"),
        (("triton", OLD, NEW, SUITE, "--engine", "cuda"), "--engine cuda: an upgrade runs cases on virtual, ptx alone"),
    ],
)
def test_wrong_input_is_one_line(project: Project, words: tuple[str, ...], error: str) -> None:
    done = project.harness("upgrade", *words)
    assert done.status == 2
    last = done.err.splitlines()[-1]
    assert last.startswith(f"harness: {error}"), done.err
