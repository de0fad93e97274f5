"""The libraries of both working copies, and what differs between them."""

import shutil
from pathlib import Path

import pytest

from harness.changes.source_tree import ParsedFiles
from harness.gate.working_copies import ChangedCode, WorkingCopy, base_of, changed_code, is_code, working_tree
from harness.project_settings import read_project_settings
from harness.suite import load_suite
from tests.gate.small_library import DOUBLING, NEGATION, SUITE


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The base and the head of a repository whose project `kernels` has its packages in `src`."""
    base = tmp_path / "base"
    write(base, "kernels/src/small/__init__.py", "")
    write(base, "kernels/src/small/doubling.py", DOUBLING)
    write(base, "kernels/src/small/negation.py", NEGATION)
    write(base, "kernels/suites/two.py", SUITE)
    write(base, "kernels/pyproject.toml", "")
    shutil.copytree(base, tmp_path / "head")
    return base, tmp_path / "head"


def copies_of(base: Path, head: Path, *named: str) -> tuple[WorkingCopy, WorkingCopy]:
    after = working_tree(head, head / "kernels", named or read_project_settings(head / "kernels").libraries)
    return base_of(after, base, has_options=bool(named)), after


def changed(base: Path, head: Path, file: str, text: str) -> ChangedCode:
    write(head, file, text)
    before, after = copies_of(base, head)
    ops = load_suite("suites/two.py", head / "kernels")
    return changed_code(ops, [file], before, after, head / "cache")


def test_the_library_of_each_copy_is_its_own(folders: tuple[Path, Path]) -> None:
    base, head = folders
    before, after = copies_of(base, head)
    assert (before.libraries, after.libraries) == ((str(base / "kernels"),), (str(head / "kernels"),))
    assert before.tree(head / "cache", ParsedFiles()).libraries == (base / "kernels" / "src",)
    outside = str(base.parent)
    before, after = copies_of(base, head, "einops==0.8.0", str(head / "kernels" / "src"), outside)
    assert before.libraries == ("einops==0.8.0", str(base / "kernels" / "src"), outside)


def test_a_changed_kernel_touches_its_op_alone(folders: tuple[Path, Path]) -> None:
    code = changed(*folders, "kernels/src/small/doubling.py", DOUBLING.replace("2 * values", "values * 2"))
    (touched,) = code.ops
    assert (touched.op.name, touched.kernels) == ("double", ("double_kernel",))
    assert code.unreached == ()


def test_new_code_that_no_op_reaches_is_named(folders: tuple[Path, Path]) -> None:
    code = changed(*folders, "kernels/src/small/more.py", NEGATION)
    names = {place.name for place in code.unreached}
    assert (code.ops, names >= {"negate_kernel", "Negate", "negate"}) == ((), True)


def test_a_test_of_the_library_is_no_code_of_it(folders: tuple[Path, Path]) -> None:
    code = changed(*folders, "kernels/tests/test_doubling.py", "def test_nothing():\n    pass\n")
    assert code == ChangedCode(ops=())


def test_compiled_sources_touch_every_op(folders: tuple[Path, Path]) -> None:
    code = changed(*folders, "kernels/src/small/fast.cu", "__global__ void f() {}\n")
    assert [(touched.op.name, str(touched.places[0])) for touched in code.ops] == [
        ("double", "kernels/src/small/fast.cu"),
        ("negate", "kernels/src/small/fast.cu"),
    ]


def test_compiled_sources_do_not_hide_a_suites_own_kernels(folders: tuple[Path, Path]) -> None:
    base, head = folders
    beside = SUITE.replace("import op,", "import beside, op,")
    beside = beside.replace("from small import doubling\n\n    return doubling", 'return beside(__file__, "own.py")')
    for folder in folders:
        write(folder, "kernels/suites/two.py", beside)
        write(folder, "kernels/suites/own.py", DOUBLING)
    write(head, "kernels/suites/own.py", DOUBLING.replace("2 * values", "values * 2"))
    code = changed(base, head, "kernels/src/small/fast.cu", "")
    assert [(each.op.name, each.changes_own_kernels) for each in code.ops] == [("double", True), ("negate", False)]


def test_a_submodule_counts_as_code(tmp_path: Path) -> None:
    (tmp_path / "libraries" / "fast").mkdir(parents=True)
    assert [is_code(file, tmp_path) for file in ("libraries/fast", "a.py", "LICENSE", "a.md")] == [
        True,
        True,
        False,
        False,
    ]


def test_other_settings_touch_every_op(folders: tuple[Path, Path]) -> None:
    settings = '[tool.kernel-harness]\nwith = ["einops==0.8.0"]\n'
    code = changed(*folders, "kernels/pyproject.toml", settings)
    assert [(touched.op.name, str(touched.places[0])) for touched in code.ops] == [
        ("double", "pyproject.toml: with = ['einops==0.8.0']"),
        ("negate", "pyproject.toml: with = ['einops==0.8.0']"),
    ]
